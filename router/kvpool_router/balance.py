"""Who gets the next request. Pure: looks at targets, changes nothing, reads no clock.

Prefill work is measured in request bytes (a stand-in for prompt tokens), decode work in running sequences. Both grow
when a leg is given out and shrink when it ends, so a slow target gets less without anybody measuring it.
Prefill and decode are only ever combined within one pairing revision: across two they could not read each other's KV.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

from kvpool_router.targets import RoleType


class Standing(IntEnum):
    """How fit a target is for new work; the lower the better."""

    OPEN = 0
    DOUBTFUL = 1  # answered 5xx or broke off lately: taken only when nothing better is left
    FULL = 2  # at its limit: worth waiting for
    DOWN = 3  # not ready, terminating, refused a connection, or frozen


class Candidate(Protocol):
    """What a choice needs to know of a target."""

    @property
    def key(self) -> str:
        """Identity, for the set of targets already tried."""

    @property
    def role_type(self) -> RoleType:
        """Which leg it can serve."""

    @property
    def pairing(self) -> str:
        """Its pairing revision."""

    @property
    def standing(self) -> Standing:
        """Its fitness now."""

    @property
    def work(self) -> float:
        """Outstanding work."""

    @property
    def turn(self) -> int:
        """When it was last chosen; the smallest goes first among equals."""


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True, slots=True)
class Pair(Generic[C]):
    """Where one request goes. No prefill: the decode (or mixed) target computes alone."""

    prefill: C | None
    decode: C


def choose(
    targets: Iterable[C],
    role_type: RoleType,
    *,
    pairings: Set[str] | None = None,
    tried: Set[str] = frozenset(),
) -> C | None:
    """The fittest, least loaded target of a role type, or None; one that was already tried only for want of others."""
    best: C | None = None
    best_rank: tuple[float, ...] = ()
    for target in targets:
        if target.role_type is not role_type or target.standing >= Standing.FULL:
            continue
        if pairings is not None and target.pairing not in pairings:
            continue
        rank = (target.key in tried, target.standing, target.work, target.turn)
        if best is None or rank < best_rank:
            best, best_rank = target, rank
    return best


def choose_mixed(targets: Iterable[C], *, tried: Set[str] = frozenset()) -> Pair[C] | None:
    """One mixed target does both phases."""
    chosen = choose(targets, RoleType.MIXED, tried=tried)
    return None if chosen is None else Pair(None, chosen)


def choose_pair(targets: Iterable[C], *, decode_may_compute: bool, tried: Set[str] = frozenset()) -> Pair[C] | None:
    """Prefill and decode of one pairing revision, or decode alone where prefill exists but is down, or None.

    Decode is chosen first: it is held longest, so its load decides which revision a request joins.
    """
    targets = tuple(targets)
    standings: dict[str, Standing] = {}
    for target in targets:
        if target.role_type is RoleType.PREFILL:
            standings[target.pairing] = min(target.standing, standings.get(target.pairing, Standing.DOWN))
    paired = {pairing for pairing, best in standings.items() if best < Standing.FULL}
    decode = choose(targets, RoleType.DECODE, pairings=paired, tried=tried)
    if decode is not None:
        prefill = choose(targets, RoleType.PREFILL, pairings={decode.pairing}, tried=tried)
        return Pair(prefill, decode)
    if not decode_may_compute:
        return None
    orphaned = {pairing for pairing, best in standings.items() if best is Standing.DOWN}
    decode = choose(targets, RoleType.DECODE, pairings=orphaned, tried=tried)
    return None if decode is None else Pair(None, decode)


def usable_mixed(targets: Iterable[Candidate]) -> bool:
    """Whether a request would be placed, at once or after others."""
    return any(t.role_type is RoleType.MIXED and t.standing is not Standing.DOWN for t in targets)


def usable_pair(targets: Iterable[Candidate], *, decode_may_compute: bool) -> bool:
    """Whether a request would be placed, at once or after others, in any pairing revision."""
    targets = tuple(targets)
    decodes = {t.pairing for t in targets if t.role_type is RoleType.DECODE and t.standing is not Standing.DOWN}
    return any(
        t.role_type is RoleType.PREFILL and t.pairing in decodes
        for t in targets
        if decode_may_compute or t.standing is not Standing.DOWN
    )
