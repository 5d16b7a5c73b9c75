from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpool_router.recompute import Emitted, before, continuation, emitted, given_back, split
from kvpool_router.rewrite import parse


def event(stop_reason: str | None = None, usage: int | None = None, **part: Any) -> bytes:
    document: dict[str, Any] = {"choices": [{"index": 0, **part, "stop_reason": stop_reason}]}
    if usage is not None:
        document["usage"] = {"completion_tokens": usage}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


BACK = event("recomputed", text="")


@pytest.mark.parametrize(
    "data, back",
    [
        (b"", False),
        (event(text="a"), False),
        (event(text='say "recomputed"'), False),
        (event("recomputed", text=""), True),
        (event(text="a") + BACK, True),
        (b'{"choices":[{"stop_reason":"recomputed"}]}', True),
        (b'{"choices":[{"finish_reason":"recomputed"}]}', True),
        (b'{"choices":[{"message":{"content":"\\"recomputed\\""}}]}', False),
        (b'{"error":"recomputed"}', False),
        (b'["recomputed"]', False),
        (b'data: "recomputed', False),
    ],
)
def test_a_request_is_given_back_only_when_a_choice_says_so(data: bytes, back: bool) -> None:
    assert given_back(data) is back


@given(st.lists(st.sampled_from([b"data: x\n\n", b"data: y", b"\n", b"\n\n"])).map(b"".join))
def test_splitting_loses_nothing_and_holds_no_complete_event(data: bytes) -> None:
    events, rest = split(data)
    assert events + rest == data
    assert b"\n\n" not in rest
    assert events == b"" or events.endswith(b"\n\n")


def test_events_before_the_one_that_gives_back_are_kept() -> None:
    assert before(event(text="a") + event(text="b") + BACK + b"data: [DONE]\n\n") == event(text="a") + event(text="b")
    assert before(BACK) == b""


@pytest.mark.parametrize(
    "events, told",
    [
        (b"", Emitted("", 0, True)),
        (event(text="a") + event(text="") + event(text="b"), Emitted("ab", 2, True)),
        (event(delta={"role": "assistant", "content": ""}) + event(delta={"content": "a"}), Emitted("a", 1, True)),
        (event(delta={"content": "abc"}, usage=3), Emitted("abc", 3, True)),
        (event(delta={"tool_calls": [1]}), Emitted("", 0, False)),
        (event(delta={"reasoning_content": "hm"}), Emitted("", 0, False)),
    ],
)
def test_what_the_client_was_told_is_read_from_the_events(events: bytes, told: Emitted) -> None:
    assert emitted(events) == told


@pytest.mark.parametrize(
    "body, asked",
    [
        ('{"prompt":"x","t":1.10}', '{"prompt":"xab","t":1.10,"max_tokens":14}'),
        ('{"prompt":"x","max_tokens":9,"min_tokens":5}', '{"prompt":"xab","max_tokens":7,"min_tokens":3}'),
        ('{"prompt":"x","max_tokens":1}', '{"prompt":"xab","max_tokens":1}'),
        (
            '{"messages":[{"a":1.10}],"max_completion_tokens":9}',
            '{"messages":[{"a":1.10},{"role": "assistant", "content": "ab"}],"max_completion_tokens":7,'
            '"add_generation_prompt":false,"continue_final_message":true}',
        ),
        ('{"prompt":[1,2]}', None),
        ('{"prompt":"x","n":2}', None),
        ('{"prompt":"x","logprobs":1}', None),
        ('{"messages":[{"a":1}],"tools":[1]}', None),
        ('{"messages":[]}', None),
        ("{}", None),
    ],
)
def test_the_rest_of_an_answer_is_asked_for_where_it_can_be_joined(body: str, asked: str | None) -> None:
    result = continuation(parse(body.encode()), Emitted("ab", 2, True))
    assert (result and result.decode()) == asked


def test_before_any_text_every_body_is_sent_again_as_it_was() -> None:
    raw = b'{"prompt":[1,2],"n":2,"tools":[1]}'
    assert continuation(parse(raw), Emitted("", 0, True)) == raw
    assert continuation(parse(raw), Emitted("", 0, False)) is None
