"""Two operators, one acts: with real processes, and with clocks of the test's own against the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kvpool_operator.app.main import micro_now
from kvpool_operator.cluster.lease import LeaseElector, LeaseTiming
from tests.cluster.conftest import World
from tests.support.counting_api import counting_api
from tests.support.kubectl import Kubectl
from tests.support.objects import mixed_group, pool
from tests.support.operator_process import OperatorProcess, running_operator

pytestmark = pytest.mark.cluster

Pair = dict[str, OperatorProcess]


@pytest.fixture
def pair(control_plane: Path, crds: None, namespace: str, tmp_path: Path) -> Iterator[Pair]:
    """Two operators for one namespace, with a Lease in it."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                running_operator(
                    control_plane,
                    tmp_path / f"{name}.log",
                    [f"--namespace={namespace}", f"--lease-namespace={namespace}", f"--identity={name}"],
                    may_be_dead=True,
                )
            )
            for name in ("one", "two")
        }


def _holder(world: World) -> str:
    leases = world.list("lease")
    return str(leases[0]["spec"].get("holderIdentity") or "") if leases else ""


def _wait_holder(world: World, name: str = "") -> str:
    world.wait_for(
        f"the lease to be held by {name or 'somebody'}",
        lambda: (holder := _holder(world)) != "" and name in ("", holder),
        seconds=60,
    )
    return _holder(world)


def _metric(operator: OperatorProcess, prefix: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in operator.metrics().splitlines() if line.startswith(prefix))


def _writes(operator: OperatorProcess) -> list[str]:
    """Requests that write, by its own count; those to the Lease aside."""
    lines = operator.metrics().splitlines()
    counted = [line for line in lines if line.startswith("kvpool_api_requests_total{") and 'kind="Lease"' not in line]
    return [line for line in counted if 'verb="GET"' not in line]


def test_one_acts_and_the_standby_never_writes(pair: Pair, kubectl: Kubectl, namespace: str) -> None:
    world = World(kubectl, namespace)
    leader = _wait_holder(world)
    standby = next(name for name in pair if name != leader)
    world.apply(pool(), mixed_group())
    world.wait_ready(pool(), mixed_group())
    assert _writes(pair[leader]) != []
    assert _writes(pair[standby]) == []
    assert (_metric(pair[leader], "kvpool_leader "), _metric(pair[standby], "kvpool_leader ")) == (1, 0)


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_the_standby_takes_over_and_goes_on(pair: Pair, kubectl: Kubectl, namespace: str, how: str) -> None:
    world = World(kubectl, namespace)
    first = _wait_holder(world)
    second = next(name for name in pair if name != first)
    world.apply(pool(), mixed_group())
    world.wait_ready(pool(), mixed_group())
    pods = world.pods("mixed")

    if how == "stopped":
        pair[first].process.terminate()
        assert pair[first].process.wait(timeout=60) == 0
        assert _holder(world) in ("", second), "a clean stop releases the lease"
    else:
        pair[first].process.kill()
        pair[first].process.wait()
    _wait_holder(world, second)
    world.run("scale", "ir/qwen-mixed", "--replicas=2")
    world.wait_for("two pods", lambda: len(world.pods("mixed")) == 2)
    assert pods < world.pods("mixed")


def test_a_leader_that_loses_its_lease_ends(pair: Pair, kubectl: Kubectl, namespace: str) -> None:
    world = World(kubectl, namespace)
    first = _wait_holder(world)
    name = world.list("lease")[0]["metadata"]["name"]
    world.run("patch", "lease", name, "--type=merge", "-p", '{"spec":{"holderIdentity":"somebody-else"}}')
    assert pair[first].process.wait(timeout=60) == 1


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_only_a_lease_that_does_not_change_expires(control_plane: Path, namespace: str) -> None:
    """The candidate's own clock decides, whatever the Lease says about time."""
    timing = LeaseTiming(duration=15, try_every=0.01, renew_every=0.01)
    clock = Clock()

    async with counting_api(control_plane) as api:

        def elector(identity: str, monotonic: Any) -> LeaseElector:
            return LeaseElector(api, namespace, "unit", identity, micro_now, monotonic, timing)

        await elector("holder", Clock()).acquire()
        candidate = asyncio.create_task(elector("candidate", clock).acquire())
        for _ in range(3):  # renewed each time before it is 15 s old on the candidate's clock
            await _looks(api, 2)
            clock.now += 14
            await elector("holder", Clock()).acquire()
        await _looks(api, 3)
        assert not candidate.done()
        clock.now += 16
        await asyncio.wait_for(candidate, timeout=10)


async def _looks(api: Any, times: int) -> None:
    """Wait until the Lease has been read so many times more."""
    start = api.reads
    async with asyncio.timeout(10):
        while api.reads < start + times:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
