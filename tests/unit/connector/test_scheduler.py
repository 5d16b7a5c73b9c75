"""What is looked up, loaded and saved, block by block."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvpool_connector.counters import Counters
from kvpool_connector.scheduler import PoolScheduler, SchedulerRules, external_tokens, loadable_blocks
from tests.unit.connector.builders import first_step, later_step, request


class Pool:
    """A look-up that knows how many leading blocks of anything it has."""

    def __init__(self, blocks: int | None) -> None:
        self.blocks = blocks
        self.asked: list[list[bytes]] = []

    def __call__(self, hashes: Sequence[bytes]) -> int | None:
        self.asked.append(list(hashes))
        return self.blocks


def scheduler(pool: Pool, counters: Counters | None = None, **rules: bool) -> PoolScheduler:
    return PoolScheduler(SchedulerRules(block_size=4, **rules), pool, counters or Counters())


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 0), (4, 0), (5, 1), (8, 1), (9, 2)])
def test_one_token_is_always_left_to_compute(tokens: int, blocks: int) -> None:
    assert loadable_blocks(tokens, 4) == blocks


@pytest.mark.parametrize(
    ("local_tokens", "found", "expected"), [(0, 3, 12), (4, 2, 8), (6, 1, 2), (7, 0, 0), (0, 0, 0)]
)
def test_external_tokens_come_after_the_local_ones_and_are_never_negative(
    local_tokens: int, found: int, expected: int
) -> None:
    assert external_tokens(local_tokens, local_tokens // 4, found, 4) == expected


def test_only_blocks_beyond_the_local_prefix_are_looked_up() -> None:
    pool = Pool(1)
    assert scheduler(pool).matched_tokens(request("a", 17), local_tokens=8) == (4, False)
    assert pool.asked == [[bytes([2]) * 8, bytes([3]) * 8]]


@pytest.mark.parametrize(("may_load", "tokens"), [(False, 17), (True, 4)])
def test_nobody_is_asked_where_nothing_can_be_loaded(may_load: bool, tokens: int) -> None:
    pool = Pool(9)
    assert scheduler(pool, may_load=may_load).matched_tokens(request("a", tokens), 0) == (0, False)
    assert pool.asked == []


def test_no_answer_is_no_hit_and_is_counted() -> None:
    counters = Counters()
    assert scheduler(Pool(None), counters).matched_tokens(request("a", 17), 0) == (0, False)
    assert counters.take()["lookups_unanswered"] == 1


def test_an_asynchronous_hit_is_announced_as_one_and_a_miss_is_not() -> None:
    assert scheduler(Pool(2), load_async=True).matched_tokens(request("a", 17), 0) == (8, True)
    assert scheduler(Pool(0), load_async=True).matched_tokens(request("a", 17), 0) == (0, False)


def test_a_hit_loads_the_blocks_after_the_local_ones_and_saves_the_rest() -> None:
    side = scheduler(Pool(2))
    prompt = request("a", 21)
    side.matched_tokens(prompt, local_tokens=4)
    side.allocated(prompt, [10, 11, 12, 13, 14, 15], num_external_tokens=8)
    plan = side.plan(first_step("a", [10, 11, 12, 13, 14, 15], computed=12, scheduled=9))
    assert [(load.blocks, load.hashes) for load in plan.loads] == [([11, 12], [bytes([1]) * 8, bytes([2]) * 8])]
    # The local block goes to the pool too: it may have lost it. What came from there does not.
    assert [save.blocks for save in plan.saves] == [[10, 13, 14]]
    assert 10 not in plan.reused
    assert {11, 12, 13, 14, 15} <= set(plan.reused)


def test_another_connector_may_own_the_load() -> None:
    side = scheduler(Pool(2))
    prompt = request("a", 9)
    side.matched_tokens(prompt, 0)
    side.allocated(prompt, [1, 2, 3], num_external_tokens=0)
    assert side.plan(first_step("a", [1, 2, 3], 0, 9)).loads == []


def test_a_chunked_prompt_is_saved_as_its_blocks_fill() -> None:
    side = scheduler(Pool(0))
    prompt = request("a", 18)
    side.matched_tokens(prompt, 0)
    steps = [
        first_step("a", [1, 2], computed=0, scheduled=6),
        later_step("a", [3], computed=6, scheduled=6),
        later_step("a", [4, 5], computed=12, scheduled=6),
    ]
    assert [[save.blocks for save in side.plan(step).saves] for step in steps] == [[[1]], [[2, 3]], [[4]]]


def test_decode_blocks_are_saved_only_if_told_so() -> None:
    for save_decode, expected in ((False, []), (True, [[2]])):
        side = scheduler(Pool(0), save_decode=save_decode)
        growing = request("a", 8, prompt=6)
        side.matched_tokens(growing, 0)
        side.plan(first_step("a", [1, 2], computed=0, scheduled=6))
        assert [save.blocks for save in side.plan(later_step("a", [], computed=6, scheduled=2)).saves] == expected


def test_a_resumed_request_gets_new_blocks_and_is_not_saved_twice() -> None:
    side = scheduler(Pool(0))
    prompt = request("a", 9)
    side.matched_tokens(prompt, 0)
    side.plan(first_step("a", [1, 2, 3], computed=0, scheduled=9))
    plan = side.plan(later_step("a", [7, 8, 9], computed=0, scheduled=9, resumed=True))
    assert plan.saves == []
    assert set(plan.reused) == {7, 8, 9}


def test_a_failed_load_is_not_looked_up_again_and_its_blocks_are_saved_once_computed() -> None:
    pool = Pool(2)
    side = scheduler(pool)
    prompt = request("a", 13)
    side.matched_tokens(prompt, 0)
    side.allocated(prompt, [1, 2, 3, 4], num_external_tokens=8)
    failing = side.plan(first_step("a", [1, 2, 3, 4], computed=8, scheduled=5))
    assert failing.acknowledged < failing.step
    side.loads_failed({1}, set())
    assert side.matched_tokens(prompt, 0) == (0, False)
    assert len(pool.asked) == 1
    again = side.plan(later_step("a", [], computed=0, scheduled=13))
    assert again.acknowledged >= failing.step
    assert [save.blocks for save in again.saves] == [[1, 2, 3]]


def test_a_failure_of_one_request_leaves_others_alone() -> None:
    side = scheduler(Pool(2))
    for name in ("a", "b"):
        side.matched_tokens(request(name, 9), 0)
        side.allocated(request(name, 9), [1, 2, 3] if name == "a" else [5, 6, 7], num_external_tokens=8)
    side.loads_failed(set(), {"a"})
    assert side.matched_tokens(request("a", 9), 0) == (0, False)
    assert side.matched_tokens(request("b", 9), 0) == (8, False)


def test_finer_hashes_name_a_block_by_its_last_one() -> None:
    pool = Pool(1)
    side = PoolScheduler(SchedulerRules(block_size=4, hashes_per_block=2), pool, Counters())
    prompt = request("a", 9)
    prompt.block_hashes = [bytes([index]) for index in range(4)]
    side.matched_tokens(prompt, 0)
    assert pool.asked == [[b"\x01", b"\x03"]]
