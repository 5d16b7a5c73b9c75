"""A real API server whose only controllers are the garbage collector and that of namespaces."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, devcluster
from tests.support.counting_api import api_client
from tests.support.trial import UserApi

AT_A_TIME = 8


@pytest.fixture(scope="module")
def quiet_cluster(control_plane: Path, crds: None) -> Iterator[Path]:
    """The control plane without controllers of workloads; with all of them again afterwards."""
    some = "garbage-collector-controller,namespace-controller"
    devcluster("up", "--profile", "control-plane", "--controllers", some)
    yield control_plane
    devcluster("up", "--profile", "control-plane", "--controllers", "*")


_RESULTS: dict[str, tuple[int, Counter[str]]] = {}


def record(scenario: str, writes: int, faults: Counter[str]) -> None:
    """Remember what a scenario went through, for docs/reliability.md."""
    _RESULTS[scenario] = (writes, faults)


@pytest.fixture(scope="session", autouse=True)
def reliability_page() -> Iterator[None]:
    """A complete run of the faults writes its counts down."""
    yield
    if os.environ.get("KVPOOL_FAULTS") == "all" and _RESULTS:
        (REPOSITORY / "docs" / "reliability.md").write_text(_page(), encoding="utf-8")


def _page() -> str:
    modes = sorted({mode for _, faults in _RESULTS.values() for mode in faults})
    lines = [
        "# Reliability",
        "",
        "Written by `make faults`. Each scenario runs on a real API server, once without a fault and once for each",
        "fault: a crash before and after every single write, and every kind of request failing once in every way. The",
        "end state must equal the clean run's, and no object may be made or deleted more often than there.",
        "",
        "| scenario | writes | " + " | ".join(modes) + " |",
        "| --- | --- |" + " --- |" * len(modes),
    ]
    for scenario, (writes, faults) in _RESULTS.items():
        lines.append(f"| {scenario} | {writes} | " + " | ".join(str(faults[mode]) for mode in modes) + " |")
    total = sum(sum(faults.values()) for _, faults in _RESULTS.values())
    return "\n".join([*lines, "", f"{total} faults in all.", ""])


@asynccontextmanager
async def user_api(kubeconfig: Path) -> AsyncIterator[UserApi]:
    """A port to the cluster for everybody but the operator."""
    async with api_client(kubeconfig) as client:
        yield UserApi(client)


@pytest.fixture(scope="session")
def slots() -> asyncio.Semaphore:
    """How many namespaces are at work at a time."""
    return asyncio.Semaphore(AT_A_TIME)
