"""The live state of all targets: load, fitness, and the legs that run on each.

Discovery replaces the set of endpoints, legs report how they went, health checks report who is frozen; requests ask
for a pair and wait in the queue until there is one. A target that left the slices keeps its running legs: they hold the
object, nothing waits for them here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol

from kvpool_router.balance import Pair, Standing, choose, choose_mixed, choose_pair, usable_mixed, usable_pair
from kvpool_router.config import Config, PrefillFailure, Transfer
from kvpool_router.queueing import WaitingRoom
from kvpool_router.targets import Endpoint, Phase, RoleType

_REFUSED_SECONDS = (1.0, 2.0, 4.0, 8.0)  # a target that refuses connections, by number of refusals in a row
_DOUBT_SECONDS = 3.0
_TIMER_SLACK = 0.01  # the loop may run a timer a little early; the target must be judged after its time
# Missed health checks in a row. One proves nothing: an engine that takes in a long prompt may be late once.
_DOWN_AFTER = 2  # new work goes elsewhere
_FROZEN_AFTER = 6  # legs that have not begun to answer move elsewhere
_DEAD_AFTER = 30  # legs that have begun are given up as well
_ABSENT_GRACE_SECONDS = 5.0  # a role without any pod for so long is scaled to zero; waiting would not help


class Fault(StrEnum):
    """How a leg failed before its first byte."""

    CONNECT = "connect"
    BROKEN = "broken"
    EMPTY = "empty"
    STATUS = "status"
    LOST = "lost"
    RECOMPUTED = "recomputed"


@dataclass(frozen=True, slots=True)
class Weight:
    """What one request adds to a target's outstanding work."""

    prefill: float
    decode: float
    sequences: int


class Clock(Protocol):
    """What the pool needs of the event loop; tests bring their own."""

    def time(self) -> float:
        """Seconds that only grow."""

    def call_at(self, when: float, callback: Callable[[Target], None], target: Target, /) -> object:
        """Call back at that time."""


class Target:
    """One endpoint and its state; made and changed by the pool alone."""

    __slots__ = (
        "address", "doubtful_until", "down_until", "endpoint", "key", "leases", "missed", "pairing", "refusals",
        "role_type", "sequences", "standing", "turn", "url", "work",
    )  # fmt: skip

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.key = endpoint.key
        self.role_type = endpoint.role_type
        self.pairing = endpoint.pairing
        self.url = endpoint.url
        self.address = (endpoint.address, endpoint.port)
        self.standing = Standing.OPEN
        self.work = 0.0
        self.sequences = 0
        self.turn = 0
        self.doubtful_until = 0.0
        self.down_until = 0.0
        self.refusals = 0
        self.missed = 0
        self.leases: set[Lease] = set()


class Lease:
    """One leg's hold on a target. As a context manager it is the scope that `Fault.LOST` can end from outside."""

    __slots__ = ("_pool", "_scope", "begun", "sequences", "target", "work")

    def __init__(self, pool: TargetPool, target: Target, work: float, sequences: int) -> None:
        self._pool = pool
        self._scope: asyncio.Timeout | None = None
        self.target = target
        self.work = work
        self.sequences = sequences
        self.begun = False
        target.leases.add(self)
        target.work += work
        target.sequences += sequences

    def release(self) -> None:
        """Give the seat back; harmless when repeated."""
        if self in self.target.leases:
            self.target.leases.remove(self)
            self.target.work -= self.work
            self.target.sequences -= self.sequences
            self._pool.changed(self.target)

    def lose(self) -> None:
        """End the leg that runs under this lease: its target is frozen."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> Lease:
        self._scope = asyncio.timeout(None)
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            await scope.__aexit__(kind, error, trace)


class PairLease:
    """A request's place: the prefill seat, if any, and the decode seat. `orphaned`: prefill exists but is down."""

    __slots__ = ("decode", "orphaned", "prefill")

    def __init__(self, prefill: Lease | None, decode: Lease, *, orphaned: bool) -> None:
        self.prefill = prefill
        self.decode = decode
        self.orphaned = orphaned

    def release(self) -> None:
        """Give both seats back."""
        if self.prefill is not None:
            self.prefill.release()
        self.decode.release()


class TargetPool:
    """All targets of the group, and the queue in front of them."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        self._config = config
        self._clock: Clock = asyncio.get_running_loop() if clock is None else clock
        self._targets: dict[str, Target] = {}
        self._turn = 0
        self._absent_since: dict[RoleType, float] = {}
        self._usable = False
        self._lost_at: float | None = None
        self.room: WaitingRoom[PairLease] = WaitingRoom(config.queue_size)
        self.synced = False
        self.ejections: dict[str, int] = {}

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every target known now."""
        return tuple(self._targets.values())

    # What discovery and health checks report.

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """Take over the set of endpoints as a whole; state of endpoints that stay is kept."""
        fresh: dict[str, Target] = {}
        for endpoint in endpoints:
            target = self._targets.get(endpoint.key)
            same = target is not None and (target.role_type, target.pairing) == (endpoint.role_type, endpoint.pairing)
            if target is None or not same or target.url != endpoint.url:
                target = Target(endpoint)
            target.endpoint = endpoint
            fresh[endpoint.key] = target
        self._targets = fresh
        self.synced = True
        now = self._clock.time()
        present = {target.role_type for target in fresh.values()}
        needed = self._needed_roles()
        self._absent_since = {r: self._absent_since.get(r, now) for r in needed if r not in present}
        for target in fresh.values():
            target.standing = self._standing(target)
        self._note_usable()
        self.room.wake()

    def health(self, target: Target, *, alive: bool) -> None:
        """Take in the outcome of one health check."""
        if alive:
            changed = bool(target.missed or target.down_until)
            target.missed, target.down_until, target.refusals = 0, 0.0, 0
            if changed:
                self.changed(target)
            return
        target.missed += 1
        if target.missed == _DOWN_AFTER:
            self._count_ejection("health")
        self.changed(target)
        if target.missed >= _FROZEN_AFTER:
            for lease in list(target.leases):
                if not lease.begun or target.missed >= _DEAD_AFTER:
                    lease.lose()

    # What legs report.

    def failed(self, target: Target, fault: Fault) -> None:
        """A leg failed before its first byte: keep new work away from the target for a while."""
        now = self._clock.time()
        if fault is Fault.CONNECT:
            step = min(target.refusals, len(_REFUSED_SECONDS) - 1)
            target.refusals += 1
            target.down_until = now + _REFUSED_SECONDS[step]
            self._clock.call_at(target.down_until + _TIMER_SLACK, self.changed, target)
        elif fault is not Fault.LOST:
            target.doubtful_until = now + _DOUBT_SECONDS
            self._clock.call_at(target.doubtful_until + _TIMER_SLACK, self.changed, target)
        self._count_ejection(fault.value)
        self.changed(target)

    def succeeded(self, target: Target) -> None:
        """A leg began to answer well."""
        if target.refusals or target.doubtful_until:
            target.refusals, target.doubtful_until, target.down_until = 0, 0.0, 0.0
            self.changed(target)

    def changed(self, target: Target) -> None:
        """Judge a target again and let waiters try."""
        self._judge(target)
        if self.room:
            self.room.wake()

    # What requests ask for.

    async def pair(self, weight: Weight, tried: Set[str], *, waited: float = 0.0, retry: bool = False) -> PairLease:
        """A place for one request that has waited so long before. Raises QueueFull or QueueTimeout."""
        patience = self._patience() - waited
        return await self.room.enter(lambda: self._try_pair(weight, tried), patience=patience, retry=retry)

    def sibling(self, lease: Lease, tried: Set[str]) -> Lease | None:
        """Another seat of the same role and pairing revision, if one is free now."""
        old = lease.target
        target = choose(self._targets.values(), old.role_type, pairings={old.pairing}, tried=tried)
        return None if target is None else self._lease(target, lease.work, lease.sequences)

    def any_ready(self) -> list[Target]:
        """Targets that can answer a question about the model, the fittest first."""
        fit = [t for t in self._targets.values() if t.standing is not Standing.DOWN]
        return sorted(fit, key=lambda t: (t.standing, t.work))

    def ready(self) -> bool:
        """Readiness of the router: a request would be placed, or would wait for a pair that was lost just now."""
        if self._usable or self._lost_at is None:
            return self._usable
        return self._clock.time() - self._lost_at < self._config.queue_timeout_seconds

    def _try_pair(self, weight: Weight, tried: Set[str]) -> PairLease | None:
        pair = self._choose(tried)
        if pair is None:
            return None
        prefill = None if pair.prefill is None else self._lease(pair.prefill, weight.prefill, 1)
        decode = self._lease(pair.decode, weight.decode, weight.sequences)
        orphaned = prefill is None and pair.decode.role_type is RoleType.DECODE
        return PairLease(prefill, decode, orphaned=orphaned)

    def _choose(self, tried: Set[str]) -> Pair[Target] | None:
        targets = self._targets.values()
        if self._config.transfer is Transfer.MIXED:
            return choose_mixed(targets, tried=tried)
        return choose_pair(targets, decode_may_compute=self._decode_may_compute, tried=tried)

    @property
    def _decode_may_compute(self) -> bool:
        return self._config.on_prefill_failure is PrefillFailure.RECOMPUTE

    def _lease(self, target: Target, work: float, sequences: int) -> Lease:
        self._turn += 1
        target.turn = self._turn
        lease = Lease(self, target, work, sequences)
        self._judge(target)
        return lease

    def _patience(self) -> float:
        """How long waiting makes sense: not at all once a needed role has been without pods for a while."""
        limit = self._config.queue_timeout_seconds
        if self._absent_since:
            until = min(self._absent_since.values()) + _ABSENT_GRACE_SECONDS
            limit = min(limit, until - self._clock.time())
        return limit

    def _needed_roles(self) -> tuple[RoleType, ...]:
        if self._config.transfer is Transfer.MIXED:
            return (RoleType.MIXED,)
        return (RoleType.PREFILL, RoleType.DECODE)

    def _judge(self, target: Target) -> None:
        standing = self._standing(target)
        if standing is not target.standing:
            target.standing = standing
            self._note_usable()

    def _note_usable(self) -> None:
        targets = self._targets.values()
        if self._config.transfer is Transfer.MIXED:
            usable = usable_mixed(targets)
        else:
            usable = usable_pair(targets, decode_may_compute=self._decode_may_compute)
        if self._usable and not usable:
            self._lost_at = self._clock.time()
        self._usable = usable

    def _standing(self, target: Target) -> Standing:
        now = self._clock.time()
        if target.endpoint.phase is not Phase.READY or target.missed >= _DOWN_AFTER or now < target.down_until:
            return Standing.DOWN
        limit = self._config.max_sequences_per_target
        if limit and target.sequences >= limit:
            return Standing.FULL
        return Standing.DOUBTFUL if now < target.doubtful_until else Standing.OPEN

    def _count_ejection(self, reason: str) -> None:
        self.ejections[reason] = self.ejections.get(reason, 0) + 1
