"""Requests that a decode engine gives back because its KV memory ran out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.router.conftest import stage
from tests.router.test_failures import broken_body
from tests.support.fake_engine import Fail

PROMPT = {"model": "tiny", "prompt": "x", "max_tokens": 5}
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5}
SLOW: dict[str, Any] = {
    "token_seconds": 0.02
}  # so that tokens do not arrive with the event that gives the request back
PARAMS = '{"remote_host":"h"}'


@pytest.mark.parametrize("transfer", ["P2P", "Pool"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_given_back_before_the_first_token_is_sent_again_as_it_was(
    tmp_path: Path, stream: bool, transfer: str
) -> None:
    async with stage(tmp_path, "--transfer", transfer, prefill=1, decode=2, transfer_params=PARAMS) as s:
        for fake in s.decode:
            fake.fails.append(Fail.GIVE_BACK_AT_ONCE)
        status, _, body = await s.post(PROMPT | {"stream": stream})
        assert status == 200
        assert b"recomputed" not in body
        assert b" t4" in body
        assert len(s.prefill[0].seen) == (3 if transfer == "P2P" else 1)


@pytest.mark.parametrize(
    "path, body, member, continued",
    [
        ("/v1/completions", PROMPT, "prompt", "x t0 t1"),
        (
            "/v1/chat/completions", CHAT, "messages",
            [{"role": "user", "content": "x"}, {"role": "assistant", "content": " t0 t1"}],
        ),
    ],
)  # fmt: skip
async def test_a_stream_that_is_given_back_goes_on_with_the_text_so_far_as_prompt(
    tmp_path: Path, path: str, body: dict[str, Any], member: str, continued: object
) -> None:
    async with stage(tmp_path, "--transfer", "P2P", prefill=1, decode=2, transfer_params=PARAMS, **SLOW) as s:
        s.decode[0].fails.append(Fail.GIVE_BACK)
        status, _, received = await s.post(body | {"stream": True}, path)
        assert status == 200
        events = [json.loads(e[6:]) for e in received.decode().split("\n\n") if e not in ("", "data: [DONE]")]
        choices = [event["choices"][0] for event in events]
        assert [c.get("text") or c["delta"]["content"] for c in choices] == [" t0", " t1", " t0", " t1", " t2"]
        assert {c["stop_reason"] for c in choices} == {None}
        assert received.count(b"[DONE]") == 1
        assert received.endswith(b"data: [DONE]\n\n")
        second = s.prefill[0].seen[1].json
        assert second[member] == continued
        [seen] = s.decode[1].seen
        assert (seen.json[member], seen.json["max_tokens"]) == (continued, 3)
        assert seen.json["kv_transfer_params"] == {"remote_host": "h"}


async def test_a_stream_whose_text_cannot_be_continued_ends_with_an_error_event(tmp_path: Path) -> None:
    async with stage(tmp_path, "--transfer", "P2P", prefill=1, decode=2, transfer_params=PARAMS, **SLOW) as s:
        s.decode[0].fails.append(Fail.GIVE_BACK)
        data = json.dumps(PROMPT | {"stream": True, "response_format": {"type": "json_object"}})
        async with s.client.post(s.url + "/v1/completions", data=data) as response:
            received = await broken_body(response)
        assert b"cannot be continued" in received
        assert b"recomputed" not in received


async def test_a_request_that_nobody_can_finish_ends_with_an_error_event(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1, **SLOW) as s:
        s.decode[0].always = Fail.GIVE_BACK
        data = json.dumps({"stream": True, "prompt": "x", "max_tokens": 1000})
        async with s.client.post(s.url + "/v1/completions", data=data) as response:
            received = await broken_body(response)
        assert received.count(b" t1") == len(s.decode[0].seen) == 17
