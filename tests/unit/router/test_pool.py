"""The pool's decisions over time, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvpool_router.config import load
from kvpool_router.pool import Fault, PairLease, Target, TargetPool, Weight
from kvpool_router.queueing import QueueTimeout
from kvpool_router.targets import Endpoint, Phase, RoleType

ONE = Weight(prefill=10, decode=1, sequences=1)


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, Callable[[Target], None], Target]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[Target], None], target: Target, /) -> object:
        self._timers.append((when, callback, target))
        return None

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self._timers if timer[0] <= self.now]
        self._timers = [timer for timer in self._timers if timer[0] > self.now]
        for _, callback, target in due:
            callback(target)


def endpoint(name: str, role_type: RoleType = RoleType.MIXED, phase: Phase = Phase.READY) -> Endpoint:
    return Endpoint(name, name, role_type, "", "r", "", 0, "10.0.0.1", 8000 + len(name), phase)


def pool_of(*endpoints: Endpoint, flags: tuple[str, ...] = ("--transfer", "Mixed")) -> tuple[TargetPool, FakeClock]:
    clock = FakeClock()
    pool = TargetPool(load(["--static", "x", *flags], {}), clock)
    pool.replace(endpoints)
    return pool, clock


def state(target: Target) -> str:
    return target.standing.name


async def pair(pool: TargetPool) -> PairLease:
    return await pool.pair(ONE, frozenset())


@pytest.mark.parametrize(
    "faults, down_seconds",
    [([Fault.CONNECT], 1), ([Fault.CONNECT] * 2, 2), ([Fault.CONNECT] * 4, 8), ([Fault.CONNECT] * 9, 8)],
)
def test_a_target_that_refuses_connections_is_left_alone_for_longer_each_time(
    faults: list[Fault], down_seconds: float
) -> None:
    pool, clock = pool_of(endpoint("a"))
    [target] = pool.targets
    for fault in faults:
        pool.failed(target, fault)
    clock.pass_(down_seconds - 0.1)
    assert state(target) == "DOWN"
    clock.pass_(0.2)
    assert state(target) == "OPEN"


@pytest.mark.parametrize("fault", [Fault.BROKEN, Fault.EMPTY, Fault.STATUS])
def test_a_target_that_answers_badly_is_doubtful_for_a_while_but_never_out(fault: Fault) -> None:
    pool, clock = pool_of(endpoint("a"))
    [target] = pool.targets
    pool.failed(target, fault)
    assert state(target) == "DOUBTFUL"
    clock.pass_(3.1)
    assert state(target) == "OPEN"


def test_success_and_a_good_health_check_forgive() -> None:
    pool, _ = pool_of(endpoint("a"))
    [target] = pool.targets
    forgivers: list[Callable[[], None]] = [
        lambda: pool.succeeded(target),
        lambda: pool.health(target, alive=True),
    ]
    for forgive in forgivers:
        pool.failed(target, Fault.CONNECT)
        forgive()
        assert state(target) == "OPEN"


def test_two_missed_health_checks_stop_routing_and_the_next_good_one_resumes_it() -> None:
    pool, _ = pool_of(endpoint("a"))
    [target] = pool.targets
    pool.health(target, alive=False)
    assert state(target) == "OPEN"
    pool.health(target, alive=False)
    assert state(target) == "DOWN"
    pool.health(target, alive=True)
    assert state(target) == "OPEN"
    assert pool.ejections == {"health": 1}


@pytest.mark.parametrize("phase", [Phase.NOT_READY, Phase.TERMINATING])
async def test_a_target_that_kubernetes_takes_off_gets_nothing_more_and_keeps_its_legs(phase: Phase) -> None:
    pool, _ = pool_of(endpoint("a"), endpoint("bb"))
    first, second = await pair(pool), await pair(pool)
    pool.replace([endpoint("a", phase=phase), endpoint("bb")])
    assert (await pair(pool)).decode.target.key == "bb"
    pool.replace([endpoint("bb")])
    for lease in (first, second):
        lease.release()
        lease.release()
    assert [target.work for target in pool.targets] == [1]


async def test_state_outlives_a_replacement_of_the_set_unless_the_pairing_changed() -> None:
    pool, _ = pool_of(endpoint("a"))
    await pair(pool)
    pool.replace([endpoint("a")])
    assert pool.targets[0].work == 1
    moved = endpoint("a")
    pool.replace([Endpoint(**{n: getattr(moved, n) for n in Endpoint.__slots__} | {"pairing": "next"})])
    assert pool.targets[0].work == 0


def test_readiness_outlives_the_last_pair_for_as_long_as_a_request_would_wait() -> None:
    pool, clock = pool_of(flags=("--transfer", "Mixed", "--queue-timeout-seconds", "30"))
    assert not pool.ready()
    pool.replace([endpoint("a")])
    assert pool.ready()
    clock.pass_(100)
    pool.replace([endpoint("a", phase=Phase.NOT_READY)])
    clock.pass_(29)
    assert pool.ready()
    clock.pass_(2)
    assert not pool.ready()


async def test_c089_a_role_scaled_to_zero_answers_at_once_after_a_short_grace() -> None:
    pool, clock = pool_of(endpoint("p", RoleType.PREFILL), flags=())
    clock.pass_(6)
    with pytest.raises(QueueTimeout):
        await pair(pool)
    pool.replace([endpoint("p", RoleType.PREFILL), endpoint("dd", RoleType.DECODE)])
    assert (await pair(pool)).decode.target.key == "dd"


async def test_a_full_target_is_given_out_again_when_a_seat_is_free() -> None:
    pool, _ = pool_of(endpoint("a"), flags=("--transfer", "Mixed", "--max-sequences-per-target", "1"))
    lease = await pair(pool)
    assert state(pool.targets[0]) == "FULL"
    assert pool.ready(), "a full group is busy, not broken"
    lease.release()
    assert state(pool.targets[0]) == "OPEN"


async def test_work_is_spread_evenly_and_given_back() -> None:
    pool, _ = pool_of(endpoint("a"), endpoint("bb"), endpoint("ccc"))
    leases = [await pair(pool) for _ in range(9)]
    assert [target.work for target in pool.targets] == [3, 3, 3]
    for lease in leases:
        lease.release()
    assert [target.work for target in pool.targets] == [0, 0, 0]
