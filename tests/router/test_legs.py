"""What each leg carries, and what the client gets back."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from tests.router.conftest import eventually, stage
from tests.support.fake_engine import Fail

BODY = b'{ "model":"tiny", "prompt":"h\\u00e9llo", "temperature":1.1, "seed":12345678901234567890, "max_tokens":3 }'


async def test_a_pool_request_runs_prefill_with_one_token_then_decode_with_the_original_bytes(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        status, _, body = await s.post(BODY)
        assert status == 200
        assert json.loads(body)["choices"][0]["text"] == " t0 t1 t2"
        [prefill], [decode] = s.prefill[0].seen, s.decode[0].seen
        assert decode.raw == BODY
        assert prefill.json["max_tokens"] == 1
        assert prefill.json["stream"] is False


async def test_numbers_that_the_router_does_not_own_keep_their_text_on_both_legs(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        await s.post(BODY)
        for seen in (s.prefill[0].seen[0], s.decode[0].seen[0]):
            assert b'"temperature":1.1,' in seen.raw
            assert b'"seed":12345678901234567890' in seen.raw
            assert b'"h\\u00e9llo"' in seen.raw


async def test_c110_the_prefill_leg_drops_what_only_decode_may_honour(tmp_path: Path) -> None:
    body = {
        "model": "tiny", "messages": [{"role": "user", "content": "hi"}], "stream": True,
        "stream_options": {"include_usage": True}, "max_tokens": 4, "min_tokens": 3, "max_completion_tokens": 4, "n": 2,
    }  # fmt: skip
    async with stage(tmp_path, prefill=1, decode=1) as s:
        status, _, _ = await s.post(body, "/v1/chat/completions")
        assert status == 200
        sent = s.prefill[0].seen[0].json
        assert sent == {
            "model": "tiny", "messages": body["messages"], "stream": False,
            "max_tokens": 1, "min_tokens": 1, "max_completion_tokens": 1, "n": 1,
        }  # fmt: skip
        assert s.decode[0].seen[0].json == body


async def test_a_stream_reaches_the_client_byte_for_byte_with_the_engines_headers(tmp_path: Path) -> None:
    request = {"prompt": "x", "stream": True, "max_tokens": 5, "stream_options": {"include_usage": True}}
    async with stage(tmp_path, mixed=1) as s:
        status, headers, body = await s.post(request)
        assert status == 200
        assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert headers["server"] == "uvicorn"
        events = body.decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        assert [json.loads(e[6:])["choices"][0]["text"] for e in events[:5]] == [" t0", " t1", " t2", " t3", " t4"]
        assert json.loads(events[5][6:])["usage"]["completion_tokens"] == 5


async def test_the_first_token_is_passed_on_before_the_last_exists(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        s.decode[0].hold_after = 1
        data = json.dumps({"prompt": "x", "stream": True, "max_tokens": 3})
        async with s.client.post(s.url + "/v1/completions", data=data) as response:
            assert b" t0" in await response.content.readany()
            s.decode[0].resume.set()
            assert (await response.content.read()).endswith(b"data: [DONE]\n\n")


async def test_identity_and_trace_headers_reach_both_legs_and_hop_by_hop_headers_neither(tmp_path: Path) -> None:
    kept = {"X-Request-Id": "abc", "Authorization": "Bearer t", "traceparent": "00-1-2-01"}
    async with stage(tmp_path, prefill=1, decode=1) as s:
        _, headers, _ = await s.post(
            BODY, headers={**kept, "Connection": "X-Secret", "X-Secret": "1", "TE": "trailers"}
        )
        assert headers["X-Request-Id"] == "abc"
        for seen in (s.prefill[0].seen[0], s.decode[0].seen[0]):
            assert {name: seen.headers[name] for name in kept} == kept
            assert not {"X-Secret", "TE"} & set(seen.headers)
        assert s.records[0]["request_id"] == "abc"


async def test_a_request_without_an_id_gets_one_that_engines_client_and_log_share(tmp_path: Path) -> None:
    async with stage(tmp_path, mixed=1) as s:
        _, headers, _ = await s.post(BODY)
        assert headers["X-Request-Id"] == s.mixed[0].seen[0].headers["X-Request-Id"] == s.records[0]["request_id"] != ""


async def test_p2p_hands_the_prefill_answers_transfer_parameters_to_decode_unchanged(tmp_path: Path) -> None:
    params = '{"do_remote_prefill":true,"remote_block_ids":[[1,2]],"remote_host":"10.0.0.1","last_token_id":7}'
    body = b'{"prompt":"x","temperature":1.10,"kv_transfer_params":{"kv_priority":3}}'
    async with stage(tmp_path, "--transfer", "P2P", prefill=1, decode=1, transfer_params=params) as s:
        status, _, _ = await s.post(body)
        assert status == 200
        asked = s.prefill[0].seen[0].json["kv_transfer_params"]
        assert asked["kv_priority"] == 3
        assert (asked["do_remote_decode"], asked["do_remote_prefill"], asked["remote_host"]) == (True, False, None)
        assert s.decode[0].seen[0].raw == (
            b'{"prompt":"x","temperature":1.10,"kv_transfer_params":' + params[:-1].encode() + b',"kv_priority":3}}'
        )


async def test_p2p_without_parameters_in_the_answer_lets_decode_compute_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, "--transfer", "P2P", prefill=1, decode=1) as s:
        status, _, _ = await s.post(BODY)
        assert status == 200
        assert s.decode[0].seen[0].raw == BODY
        assert await s.metric('kvpool_router_decode_alone_total{reason="no_transfer_params"}') == 1


@pytest.mark.parametrize("role", ["prefill", "decode", "mixed"])
async def test_c112_an_engines_400_is_returned_at_once_with_its_body(tmp_path: Path, role: str) -> None:
    counts = {"mixed": 2} if role == "mixed" else {"prefill": 2, "decode": 2}
    async with stage(tmp_path, **counts) as s:
        for fake in getattr(s, role):
            fake.always = Fail.BAD_REQUEST
        status, headers, body = await s.post(BODY)
        assert (status, headers["server"]) == (400, "uvicorn")
        assert json.loads(body)["error"]["message"].endswith("says 400")
        assert sum(len(fake.seen) for fake in getattr(s, role)) == 1


@pytest.mark.parametrize(
    "body, part",
    [
        (b"{", "member name"),
        (b"", "empty"),
        (b"[1]", "must be a JSON object"),
        (b'{"a":1}x', "extra text"),
        (b'{"a":\xff}', "UTF-8"),
        (b"[" * 100_000, "too deep"),
    ],
)
async def test_c114_a_body_that_is_no_json_object_gets_400_without_touching_an_engine(
    tmp_path: Path, body: bytes, part: str
) -> None:
    async with stage(tmp_path, mixed=1) as s:
        status, _, answer = await s.post(body)
        error = json.loads(answer)["error"]
        assert (status, error["code"], error["type"]) == (400, 400, "BadRequestError")
        assert part in error["message"]
        assert s.mixed[0].seen == []


async def test_c114_an_unknown_model_gets_the_engines_own_404(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        status, _, body = await s.post({"model": "other", "prompt": "x"})
        assert (status, json.loads(body)["error"]["type"]) == (404, "NotFoundError")
        assert s.decode[0].seen == []
        _, document = await s.get("/targets")
        assert [t["legs"] for t in json.loads(document)["targets"]] == [0, 0]


async def test_a_body_over_the_limit_gets_413(tmp_path: Path) -> None:
    async with stage(tmp_path, "--max-body-bytes", "1000", mixed=1) as s:
        status, _, body = await s.post({"prompt": "x" * 2000})
        assert (status, json.loads(body)["error"]["code"]) == (413, 413)


@pytest.mark.parametrize(
    "method, path, status",
    [("GET", "/v1/completions", 405), ("POST", "/v1/models", 405), ("POST", "/v1/embeddings", 404), ("GET", "/", 404)],
)
async def test_other_paths_and_methods_get_a_json_error(tmp_path: Path, method: str, path: str, status: int) -> None:
    async with stage(tmp_path, mixed=1) as s:
        async with s.client.request(method, s.url + path) as response:
            assert response.status == status
            assert (await response.json())["error"]["code"] == status


async def test_models_come_from_an_engine_and_from_the_configuration_when_none_answers(tmp_path: Path) -> None:
    async with stage(tmp_path, "--model", "tiny", mixed=1) as s:
        _, text = await s.get("/v1/models")
        assert json.loads(text)["data"][0]["max_model_len"] == 4096
        await s.mixed[0].kill()
        status, text = await s.get("/v1/models")
        assert (status, [m["id"] for m in json.loads(text)["data"]]) == (200, ["tiny"])


async def test_cached_tokens_are_counted_as_the_engines_report_them(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1, cached_tokens=96) as s:
        await s.post(BODY)
        await s.post({"prompt": "x", "stream": True, "stream_options": {"include_usage": True}})
        assert await s.metric('kvpool_router_cached_tokens_total{leg="decode"}') == 192
        assert await s.metric('kvpool_router_cached_tokens_total{leg="prefill"}') == 192


async def test_a_client_that_leaves_ends_the_leg_that_runs(tmp_path: Path) -> None:
    for role in ("prefill", "decode"):
        async with stage(tmp_path, prefill=1, decode=1) as s:
            fake = getattr(s, role)[0]
            fake.gate.clear()
            with pytest.raises(TimeoutError):
                await s.post(BODY, timeout=aiohttp.ClientTimeout(total=0.2))
            await eventually(lambda fake=fake: fake.cancelled == 1, f"the {role} leg to be cancelled")  # type: ignore[misc]
            await eventually(lambda s=s: len(s.records) == 1, "the access-log line")  # type: ignore[misc]
            assert s.records[0]["outcome"] == "client_gone"
            if role == "prefill":
                assert s.decode[0].seen == []


async def test_a_client_that_leaves_a_stream_ends_it_on_the_engine(tmp_path: Path) -> None:
    async with stage(tmp_path, mixed=1) as s:
        s.mixed[0].hold_after = 1
        async with s.client.post(s.url + "/v1/completions", data=b'{"stream":true}') as response:
            await response.content.readany()
            response.close()
        await eventually(lambda: s.mixed[0].cancelled == 1, "the stream to be cancelled on the engine")


async def test_the_access_log_line_names_targets_status_seconds_and_retries(tmp_path: Path) -> None:
    flags = ("--namespace", "ml", "--group", "qwen")
    async with stage(tmp_path, *flags, prefill=1, decode=2) as s:
        for fake in s.decode:
            fake.fails.append(Fail.INTERNAL)
        await s.post(BODY)
        [line] = s.records
        assert (line["namespace"], line["group"], line["status"], line["outcome"]) == ("ml", "qwen", 200, "ok")
        assert line["prefill"] == s.prefill[0].url.removeprefix("http://")
        assert line["decode"] == s.decode[0].url.removeprefix("http://")
        assert line["retries"] == 2
        assert set(line["seconds"]) == {"queue", "prefill", "first_byte", "total"}
