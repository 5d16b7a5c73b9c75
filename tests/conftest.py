"""Fixtures of more than one tier: a control plane, the programs that talk to it, a namespace for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.profiles import PROFILES
from devcluster.toolchain import tools_paths
from tests.support.kubectl import Kubectl, Program

REPOSITORY = Path(__file__).resolve().parent.parent

# Folder of a test -> its tier; tiers run in this order, the cheap ones first.
TIERS = {
    "unit": "unit",
    "router": "unit",
    "devcluster": "devcluster",
    "engine": "engine",
    "api": "api",
    "faults": "faults",  # before the cluster tier, whose operator would act in its namespaces
    "cluster": "cluster",
    "node": "node",
}
_ORDER = {tier: number for number, tier in enumerate(dict.fromkeys(TIERS.values()))}
_seconds: dict[str, float] = dict.fromkeys(_ORDER, 0.0)


def _tier(item: pytest.Item) -> str:
    tier = TIERS[item.path.relative_to(REPOSITORY / "tests").parts[0]]
    return "api" if tier == "unit" and item.get_closest_marker("cluster") else tier


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order by tier; within one, tests with operators of their own before those that share the one for all."""

    def place(item: pytest.Item) -> tuple[int, bool]:
        return _ORDER[_tier(item)], "operator" in getattr(item, "fixturenames", ())

    items.sort(key=place)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up each tier's seconds, fixtures included."""
    _seconds[TIERS[Path(report.nodeid).parts[1]]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print them before the runner's own last line."""
    spent = ", ".join(f"{tier} {seconds:.0f} s" for tier, seconds in _seconds.items() if seconds >= 0.5)
    terminalreporter.write_line(f"seconds by tier: {spent or 'none'}")


def devcluster(*arguments: str) -> None:
    """Run the development cluster's command line; its words are the failure's."""
    command = [sys.executable, "-m", "devcluster", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"devcluster {' '.join(arguments)}:\n{done.stdout}{done.stderr}", pytrace=False)


def _program(name: str, built: Path) -> Path:
    """The project's own build if it is there; with a cluster of somebody else the one on PATH will do."""
    if not built.exists():
        on_path = shutil.which(name) if "KVPOOL_KUBECONFIG" in os.environ else None
        if on_path:
            return Path(on_path)
        devcluster("build")
    return built


@pytest.fixture(scope="session")
def control_plane() -> Path:
    """Kubeconfig of a running control plane: `KVPOOL_KUBECONFIG`, or the development cluster's."""
    given = os.environ.get("KVPOOL_KUBECONFIG")
    if given:
        return Path(given)
    devcluster("up", "--profile", "control-plane")
    return PROFILES["control-plane"].kubeconfig


@pytest.fixture(scope="session")
def kubectl(control_plane: Path) -> Kubectl:
    """kubectl against the control plane."""
    return Kubectl(_program("kubectl", tools_paths().kubernetes / "kubectl"), control_plane)


@pytest.fixture(scope="session")
def helm(control_plane: Path) -> Program:
    """helm against the control plane."""
    return Program(_program("helm", tools_paths().helm / "helm"), control_plane)


@pytest.fixture(scope="session")
def crds(kubectl: Kubectl) -> None:
    """The project's CRDs, served."""
    folder = REPOSITORY / "crds"
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", folder)
    kubectl.run("wait", "--for=condition=Established", "--timeout=30s", "-f", folder)


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A fresh namespace, deleted at the end."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl.run("create", "namespace", name)
    yield name
    kubectl.run("delete", "namespace", name, "--wait=false")
