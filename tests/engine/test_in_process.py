"""Answers with the pool equal answers without it, in every way a block can travel or fail to."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.engine

Results = dict[str, Any]


def test_a_second_engine_takes_whole_blocks_from_the_pool_and_answers_the_same(in_process: Results) -> None:
    reference, first, second = (
        in_process[name] for name in ("no connector", "mooncake, first engine", "mooncake, second engine")
    )
    assert reference["prompt"][0] == first["prompt"][0]
    assert first["hits"] == 0
    assert second["cached"] == [(tokens - 1) // 32 * 32 for tokens in second["prompt"]]
    assert second["hits"] == sum(second["cached"]) > 0
    assert first["tokens"] == second["tokens"] == reference["tokens"]


def test_the_hit_is_real_since_zeroed_objects_change_the_answer(in_process: Results) -> None:
    zeroed, whole = in_process["mooncake, zeroed"], in_process["mooncake, second engine"]
    assert in_process["zeroed objects"]["value"] > 0
    assert zeroed["cached"] == whole["cached"]
    assert zeroed["tokens"] != whole["tokens"]


@pytest.mark.parametrize(
    ("scenario", "hits"),
    [
        ("mooncake, asynchronous", True),
        ("mooncake, chunked", True),
        ("mooncake, loading consumer", True),
        ("after a reset of the local cache", True),
        ("mooncake, other namespace", False),
        ("mooncake, consumer", False),
    ],
)
def test_answers_are_the_same_and_hits_are_where_they_belong(in_process: Results, scenario: str, hits: bool) -> None:
    result = in_process[scenario]
    assert result["tokens"] == in_process["no connector"]["tokens"]
    assert (result["hits"] > 0) is hits


@pytest.mark.parametrize("scenario", ["failing loads", "failing asynchronous loads"])
def test_a_load_that_fails_is_computed_and_not_tried_for_ever(in_process: Results, scenario: str) -> None:
    result = in_process[scenario]
    assert result["tokens"] == in_process["no connector"]["tokens"]
    assert set(result["finish"]) == {"length"}
    # One look-up a prompt, and the saver asks before it stores what was computed again.
    assert result["store_questions"] < 20


def test_a_lookup_that_hangs_costs_its_deadline_once(in_process: Results) -> None:
    result = in_process["hanging look-ups"]
    assert result["tokens"] == in_process["no connector"]["tokens"]
    assert result["seconds"] < 2.5  # three look-ups of 3 s each would be nine


@pytest.mark.parametrize("way", ["synchronous", "asynchronous"])
def test_preempted_requests_answer_the_same(in_process: Results, way: str) -> None:
    result = in_process[f"many, preempted, {way}"]
    assert result["preemptions"] > 0
    assert result["hits"] > 0
    assert result["tokens"] == in_process["many, no connector"]["tokens"]


def test_no_block_is_lost_in_any_scenario(in_process: Results) -> None:
    assert in_process["reset succeeded"]["value"]
    left = {name: result["unfree_blocks"] for name, result in in_process.items() if "unfree_blocks" in result}
    assert left == dict.fromkeys(left, 0)
