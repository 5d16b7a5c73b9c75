"""One real node with real parts: Mooncake's master, vLLM on CPU with the packaged connector, the router, the chart.

The group of the samples is brought up once for the whole tier; at most four engines are alive at any time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.profiles import PROFILES
from devcluster.toolchain import tools_paths
from tests.support.engine_client import EngineClient, RouterClient
from tests.support.kubectl import Kubectl, Program

REPOSITORY = Path(__file__).resolve().parents[2]
NAMESPACE = "demo"
READY_SECONDS = 400


def _devcluster(*arguments: str, module: str = "devcluster") -> str:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}", pytrace=False)
    return done.stdout.strip()


@pytest.fixture(scope="session")
def node() -> Iterator[Path]:
    """Kubeconfig of the node cluster, with the project's images in it; ended here if it was started here."""
    if os.environ.get("KVPOOL_KUBECONFIG"):
        pytest.skip("the node tier needs this machine's own node cluster: KVPOOL_KUBECONFIG names another")
    if os.geteuid() != 0:
        pytest.skip("the node tier needs root: containers, network namespaces and mounts")
    was_up = PROFILES["node"].kubeconfig.exists()
    packages = _devcluster("site-packages", module="devcluster.engine")
    model = _devcluster("model", module="devcluster.engine")
    mounts = ["--mount", f"{packages}:/opt/vllm", "--mount", f"{model}:/models/demo"]
    _devcluster("up", "--profile", "node", *mounts)
    _devcluster("images")
    yield PROFILES["node"].kubeconfig
    if not was_up:
        _devcluster("down", "--profile", "node")


@pytest.fixture(scope="session")
def node_kubectl(node: Path) -> Kubectl:
    """kubectl on the node cluster."""
    return Kubectl(tools_paths().kubernetes / "kubectl", node)


@pytest.fixture(scope="session")
def installed(node: Path, node_kubectl: Kubectl) -> None:
    """The operator, installed by its chart as a user would."""
    helm = Program(tools_paths().helm / "helm", node)
    helm.run(
        "upgrade", "--install", "kvpool", REPOSITORY / "charts/kvpool", "--namespace=kvpool-system",
        "--create-namespace", "--set=global.imageRegistry=localhost,image.tag=dev",
        "--set=images.connector.tag=dev,images.router.tag=dev", "--wait", "--timeout=180s", timeout=240,
    )  # fmt: skip
    # The tag is always `dev`: a pod that still runs an earlier build is replaced.
    node_kubectl.run("-n", "kvpool-system", "rollout", "restart", "deployment")
    node_kubectl.run("-n", "kvpool-system", "rollout", "status", "deployment", "--timeout=120s", timeout=150)


@dataclass(frozen=True, slots=True)
class Serving:
    """The samples' group, ready, and ways to talk to its parts."""

    kubectl: Kubectl
    router: RouterClient
    expected: str
    """What a plain engine without a connector answers to PROMPT."""

    def run(self, *arguments: str, timeout: float = 120) -> str:
        """kubectl in the group's namespace."""
        return self.kubectl.run("-n", NAMESPACE, *arguments, timeout=timeout)

    def get(self, kind: str, name: str) -> Any:
        """One object."""
        return self.kubectl.get_json(kind, name, NAMESPACE)

    def pods(self, role: str) -> list[Any]:
        """A role's living pods."""
        items = self.kubectl.get_json("pods", None, NAMESPACE, selector=f"kvpool.dev/role={role}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def engines(self, *roles: str) -> list[EngineClient]:
        """A client for each engine of these roles; this machine reaches pods by their addresses."""
        wanted = roles or ("prefill", "decode")
        return [EngineClient(f"http://{pod['status']['podIP']}:8000") for role in wanted for pod in self.pods(role)]

    def forget_locally(self) -> None:
        """Empty every engine's own prefix cache: what hits afterwards can only come from the pool."""
        for engine in self.engines():
            engine.reset_prefix_cache()

    def wait_ready(self, kind: str, name: str, seconds: float = READY_SECONDS) -> None:
        """Wait for Ready at the present generation."""
        self.run("wait", "--for=condition=Ready", f"{kind}/{name}", f"--timeout={seconds:.0f}s", timeout=seconds + 30)


PROMPT = "the quick brown fox jumps over the lazy dog and finds a key value cache pool behind the fence. " * 6


@pytest.fixture(scope="session")
def serving(installed: None, node_kubectl: Kubectl) -> Serving:
    """The pool and the group of the samples, and a plain engine whose answer is the reference."""
    body = '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"demo"}}'
    node_kubectl.run("apply", "-f", "-", stdin=body)
    for path in ("samples/demo-pool.yaml", "samples/demo-group.yaml", "demo/baseline.yaml"):
        node_kubectl.run("-n", NAMESPACE, "apply", "-f", REPOSITORY / path)
    node_kubectl.run("-n", NAMESPACE, "wait", "--for=condition=Ready", "pod/baseline", "--timeout=400s", timeout=420)
    address = node_kubectl.get_json("pod", "baseline", NAMESPACE)["status"]["podIP"]
    expected = RouterClient(f"http://{address}:8000").complete(PROMPT)
    node_kubectl.run("-n", NAMESPACE, "delete", "pod", "baseline", "--wait=false")
    service = _wait_service(node_kubectl)
    serving = Serving(node_kubectl, RouterClient(f"http://{service}:8000"), expected)
    serving.wait_ready("kvpool", "demo")
    serving.wait_ready("inferencegroup", "demo")
    both = {"Prefill", "Decode"}
    node_kubectl.wait_for("the router to have heard of both roles", lambda: serving.router.ready_roles() == both)
    return serving


def _wait_service(kubectl: Kubectl) -> str:
    """The router's ClusterIP; this machine is the node, so it reaches Services."""

    def exists() -> bool:
        return bool(kubectl.get_json("svc", None, NAMESPACE, selector="app.kubernetes.io/component=router")["items"])

    kubectl.wait_for("the router's Service", exists)
    return str(kubectl.get_json("svc", "demo-router", NAMESPACE)["spec"]["clusterIP"])
