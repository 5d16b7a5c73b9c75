from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpool_router.rewrite import BadBody, decode_body, edit, parse, prefill_body, sequences, without_remote

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), json_values, max_size=6)


@pytest.mark.parametrize(
    "text, changes, edited",
    [
        ('{"a":1.1}', {}, '{"a":1.1}'),
        ('{"a":1.1}', {"b": "2"}, '{"a":1.1,"b":2}'),
        ('{ "a" : 1.10 , "b":2 }', {"b": "3"}, '{"a" : 1.10,"b":3}'),
        ('{"a":1,"b":2}', {"a": None}, '{"b":2}'),
        ('{"a":1}', {"a": None}, "{}"),
        ("{}", {"a": "1"}, '{"a":1}'),
        ('{"a":1,"b":0,"a":2}', {"a": "3"}, '{"b":0,"a":3}'),
        ('{"a":1,"b":0,"a":2}', {"b": "1"}, '{"a":1,"b":1,"a":2}'),
        ('{"\\u0061":1}', {"a": "2"}, '{"\\u0061":2}'),
        ('{"x":"}\\",{","a":1}', {"a": "2"}, '{"x":"}\\",{","a":2}'),
        ('{"s":"\\ud800","a":1}', {"a": "2"}, '{"s":"\\ud800","a":2}'),
        ('{"n":1234567890123456789,"e":1e2,"z":-0.0}', {"a": "1"}, '{"n":1234567890123456789,"e":1e2,"z":-0.0,"a":1}'),
    ],
)  # fmt: skip
def test_an_edit_keeps_the_text_of_what_it_does_not_own(text: str, changes: dict[str, Any], edited: str) -> None:
    assert edit(parse(text.encode()), changes).decode() == edited


@given(objects, st.booleans())
def test_any_object_survives_an_edit_with_equal_values(value: dict[str, Any], ascii_only: bool) -> None:
    try:
        raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return  # lone surrogates have no UTF-8 form; they can only come escaped
    edited = json.loads(edit(parse(raw), {"max_tokens": "1"}))
    assert edited == value | {"max_tokens": 1}


@given(objects)
def test_every_member_keeps_its_exact_text(value: dict[str, Any]) -> None:
    raw = json.dumps(value, indent=2).encode()
    for member in parse(raw).members:
        assert member.text.encode() in raw
        assert json.loads(member.value_text) == value[member.key]


@given(st.binary(max_size=40))
def test_any_bytes_are_parsed_as_python_does_or_refused(raw: bytes) -> None:
    try:
        expected = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        expected = None
    if isinstance(expected, dict):
        assert {m.key: m.value for m in parse(raw).members} == expected
    else:
        with pytest.raises(BadBody):
            parse(raw)


@pytest.mark.parametrize(
    "raw, part",
    [
        (b"", "empty"),
        (b"  ", "empty"),
        (b"{", "member name"),
        (b'{"a"}', "':' is expected"),
        (b'{"a":}', "Expecting value"),
        (b'{"a":1,}', "member name"),
        (b'{"a":1 "b":2}', "',' or '}' is expected"),
        (b'{"a":1', "',' or '}' is expected"),
        (b"{a:1}", "member name"),
        (b"[]", "must be a JSON object"),
        (b"5", "must be a JSON object"),
        (b"nope", "Expecting value"),
        (b"{}{}", "extra text"),
        (b'{"a":"\x01"}', "control character"),
        (b"\xef\xbb\xbf{}", "Expecting value"),
        (b'{"a":"\xff"}', "not UTF-8"),
        (b'{"a":' + b"1" * 5000 + b"}", "too long"),
        (b'{"a":' + b"[" * 100_000, "too deep"),
    ],
)
def test_a_broken_body_is_refused_with_the_place(raw: bytes, part: str) -> None:
    with pytest.raises(BadBody) as caught:
        parse(raw)
    assert part.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    "body, prefill",
    [
        ({"prompt": "x"}, {"prompt": "x", "max_tokens": 1, "stream": False}),
        ({"max_tokens": 200, "stream": True}, {"max_tokens": 1, "stream": False}),
        ({"stream_options": {"include_usage": True}}, {"max_tokens": 1, "stream": False}),
        ({"max_completion_tokens": 9}, {"max_completion_tokens": 1, "max_tokens": 1, "stream": False}),
        ({"n": 4, "best_of": 4}, {"n": 1, "best_of": 1, "max_tokens": 1, "stream": False}),
        ({"min_tokens": 50}, {"min_tokens": 1, "max_tokens": 1, "stream": False}),
        ({"min_tokens": 0}, {"min_tokens": 0, "max_tokens": 1, "stream": False}),
        ({"min_tokens": "x"}, {"min_tokens": "x", "max_tokens": 1, "stream": False}),
        ({"echo": True, "prompt_logprobs": 2, "logprobs": 3}, {"logprobs": 3, "max_tokens": 1, "stream": False}),
        ({"cache_salt": "s", "x": {"a": 1}}, {"cache_salt": "s", "x": {"a": 1}, "max_tokens": 1, "stream": False}),
    ],
)  # fmt: skip
def test_c110_the_prefill_leg_asks_for_one_token_and_no_stream(body: dict[str, Any], prefill: dict[str, Any]) -> None:
    assert json.loads(prefill_body(parse(json.dumps(body).encode()), transfer=False)) == prefill


def test_p2p_prefill_keeps_the_clients_own_transfer_members() -> None:
    body = parse(b'{"kv_transfer_params":{"kv_priority":3,"do_remote_prefill":true}}')
    assert json.loads(prefill_body(body, transfer=True))["kv_transfer_params"] == {
        "kv_priority": 3, "do_remote_decode": True, "do_remote_prefill": False,
        "remote_engine_id": None, "remote_block_ids": None, "remote_host": None, "remote_port": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "body, answer, decode",
    [
        (b'{"t":1.10}', b'{"kv_transfer_params":{"a": 1.10}}', b'{"t":1.10,"kv_transfer_params":{"a": 1.10}}'),
        (
            b'{"kv_transfer_params":{"kv_priority":7,"remote_host":"mine"}}',
            b'{"kv_transfer_params":{"remote_host":"h"}}',
            b'{"kv_transfer_params":{"remote_host":"h","kv_priority":7}}',
        ),
        (
            b'{"kv_transfer_params":{"kv_priority":7}}',
            b'{"kv_transfer_params":{"kv_priority":3}}',
            b'{"kv_transfer_params":{"kv_priority":3}}',
        ),
        (b"{}", b'{"kv_transfer_params":null}', None),
        (b"{}", b'{"kv_transfer_params":{}}', None),
        (b"{}", b'{"kv_transfer_params":5}', None),
        (b"{}", b"{}", None),
        (b"{}", b"not json", None),
    ],
)
def test_p2p_decode_gets_the_answers_parameters_with_their_text(
    body: bytes, answer: bytes, decode: bytes | None
) -> None:
    assert decode_body(parse(body), answer) == decode


@pytest.mark.parametrize(
    "body, left",
    [
        (b'{"a": 1.10}', b'{"a": 1.10}'),
        (b'{"kv_transfer_params":{"kv_priority":3}}', b'{"kv_transfer_params":{"kv_priority":3}}'),
        (
            b'{"kv_transfer_params":{"do_remote_prefill":true,"remote_host":"evil","kv_priority":3}}',
            b'{"kv_transfer_params":{"kv_priority":3}}',
        ),
    ],
)
def test_a_client_cannot_name_the_blocks_that_a_lone_decoder_fetches(body: bytes, left: bytes) -> None:
    assert without_remote(parse(body)) == left


@pytest.mark.parametrize(
    "body, count",
    [
        ({}, 1), ({"n": 3}, 3), ({"n": 2, "best_of": 5}, 5), ({"prompt": ["a", "b"]}, 2),
        ({"prompt": [1, 2, 3]}, 1), ({"prompt": [[1], [2]], "n": 2}, 4), ({"prompt": []}, 1),
        ({"n": "x"}, 1), ({"n": True}, 1), ({"n": -4}, 1), ({"prompt": "abc"}, 1),
    ],
)  # fmt: skip
def test_sequences_count_prompts_times_samples(body: dict[str, Any], count: int) -> None:
    assert sequences(parse(json.dumps(body).encode())) == count
