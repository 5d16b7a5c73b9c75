from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpool_router.balance import (
    Standing,
    choose,
    choose_mixed,
    choose_pair,
    usable_mixed,
    usable_pair,
)
from kvpool_router.targets import RoleType

OPEN, DOUBTFUL, FULL, DOWN = Standing
P, D, M = RoleType.PREFILL, RoleType.DECODE, RoleType.MIXED


@dataclass(frozen=True)
class T:
    key: str
    role_type: RoleType = M
    standing: Standing = OPEN
    work: float = 0.0
    turn: int = 0
    pairing: str = "r"


_P1 = T("p1", P, pairing="1")


@pytest.mark.parametrize(
    "targets, tried, chosen",
    [
        ([], set(), None),
        ([T("a", work=2), T("b", work=1)], set(), "b"),
        ([T("a", turn=5), T("b", turn=4)], set(), "b"),
        ([T("a", standing=DOUBTFUL), T("b", work=99)], set(), "b"),
        ([T("a", standing=DOUBTFUL)], set(), "a"),
        ([T("a", standing=FULL), T("b", standing=DOWN)], set(), None),
        ([T("a"), T("b", work=99)], {"a"}, "b"),
        ([T("a"), T("b", standing=DOUBTFUL)], {"a"}, "b"),
        ([T("a")], {"a"}, "a"),
    ],
)
def test_the_fittest_then_the_least_loaded_then_the_longest_unused_is_chosen(
    targets: list[T], tried: set[str], chosen: str | None
) -> None:
    found = choose(targets, M, tried=tried)
    assert (found and found.key) == chosen
    pair = choose_mixed(targets, tried=tried)
    assert (pair and pair.decode.key) == chosen


@pytest.mark.parametrize(
    "targets, alone_allowed, chosen",
    [
        ([T("p", P), T("d", D)], True, ("p", "d")),
        ([T("p", P), T("d", D, pairing="other")], True, None),
        # the least loaded decoder decides the revision, prefill follows
        (
            [_P1, T("d1", D, OPEN, 5, 0, "1"), T("p2", P, OPEN, 9, 0, "2"), T("d2", D, OPEN, 0, 0, "2")],
            True,
            ("p2", "d2"),
        ),
        # a paired decoder goes before an orphaned one, however loaded
        (
            [_P1, T("d1", D, OPEN, 5, 0, "1"), T("p2", P, DOWN, 0, 0, "2"), T("d2", D, OPEN, 0, 0, "2")],
            True,
            ("p1", "d1"),
        ),
        ([T("p", P, DOWN), T("d", D)], True, (None, "d")),
        ([T("p", P, DOWN), T("d", D)], False, None),
        ([T("p", P, FULL), T("d", D)], True, None),
        ([T("p", P, FULL), T("q", P, DOWN), T("d", D)], True, None),
        ([T("d", D)], True, None),
        ([T("p", P)], True, None),
        ([T("p", P), T("d", D, DOWN)], True, None),
        ([], True, None),
    ],
)  # fmt: skip
def test_a_pair_is_made_within_one_revision(
    targets: list[T], alone_allowed: bool, chosen: tuple[str | None, str] | None
) -> None:
    pair = choose_pair(targets, decode_may_compute=alone_allowed)
    assert (pair and (pair.prefill and pair.prefill.key, pair.decode.key)) == chosen


targets_strategy = st.lists(
    st.builds(
        T,
        key=st.uuids().map(str),
        role_type=st.sampled_from([P, D]),
        standing=st.sampled_from(list(Standing)),
        work=st.integers(0, 3).map(float),
        pairing=st.sampled_from("abc"),
    ),
    max_size=8,
)


@given(targets_strategy, st.booleans())
def test_no_choice_ever_mixes_revisions_or_takes_a_target_that_is_full_or_down(
    targets: list[T], alone_allowed: bool
) -> None:
    pair = choose_pair(targets, decode_may_compute=alone_allowed)
    if pair is None:
        return
    assert pair.decode.standing <= DOUBTFUL
    if pair.prefill is None:
        assert alone_allowed
        return
    assert pair.prefill.pairing == pair.decode.pairing
    assert pair.prefill.standing <= DOUBTFUL


@given(targets_strategy, st.booleans())
def test_what_can_be_chosen_is_usable_and_what_is_usable_can_be_chosen_once_limits_free_up(
    targets: list[T], alone_allowed: bool
) -> None:
    freed = [T(t.key, t.role_type, OPEN if t.standing is FULL else t.standing, t.work, 0, t.pairing) for t in targets]
    chosen = choose_pair(freed, decode_may_compute=alone_allowed)
    assert usable_pair(targets, decode_may_compute=alone_allowed) == (chosen is not None)


@pytest.mark.parametrize("standing, usable", [(OPEN, True), (DOUBTFUL, True), (FULL, True), (DOWN, False)])
def test_a_mixed_group_is_usable_while_a_target_is_not_down(standing: Standing, usable: bool) -> None:
    assert usable_mixed([T("a", M, standing), T("d", D)]) is usable
