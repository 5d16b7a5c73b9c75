"""Engines that die, lie, freeze or never come: what the client sees and where the next request goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.router.conftest import Stage, eventually, stage, targets
from tests.support.fake_engine import Fail, FakeEngine

BODY = {"model": "tiny", "prompt": "x", "max_tokens": 3}
ROOT = Path(__file__).resolve().parents[2]


def served(fakes: list[FakeEngine]) -> list[int]:
    return [len(fake.seen) for fake in fakes]


async def statuses(s: Stage, count: int, body: dict[str, Any]) -> list[int]:
    answers = await asyncio.gather(*(s.post(body) for _ in range(count)))
    assert all(answer[2] for answer in answers if answer[0] == 200), "an empty 200"
    return [answer[0] for answer in answers]


async def broken_body(response: aiohttp.ClientResponse) -> bytes:
    """What arrives before the body breaks off; fails if it ends cleanly."""
    received = b""
    try:
        while chunk := await response.content.readany():
            received += chunk
    except aiohttp.ClientPayloadError:
        return received
    pytest.fail(f"a clean finish, the last bytes are {received[-300:]!r}")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("transfer", ["Pool", "P2P", "Mixed"])
async def test_c111_a_killed_decoder_costs_no_request(tmp_path: Path, transfer: str, stream: bool) -> None:
    counts = {"mixed": 2} if transfer == "Mixed" else {"prefill": 1, "decode": 2}
    async with stage(tmp_path, "--transfer", transfer, transfer_params='{"remote_host":"h"}', **counts) as s:
        fakes = s.mixed or s.decode
        await fakes[0].kill()
        assert await statuses(s, 40, BODY | {"stream": stream}) == [200] * 40
        assert served(fakes) == [0, 40]


@pytest.mark.parametrize("fail", [Fail.INTERNAL, Fail.UNAVAILABLE, Fail.RESET, Fail.EMPTY, Fail.SHORT])
@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_c112_a_failure_before_the_first_byte_is_retried_on_another_target(
    tmp_path: Path, role: str, fail: Fail
) -> None:
    async with stage(tmp_path, prefill=2, decode=2) as s:
        fakes = getattr(s, role)
        fakes[0].always = fail
        assert await statuses(s, 6, BODY) == [200] * 6
        assert served(fakes)[0] >= 1
        assert served(fakes)[1] == 6
        before = served(fakes)[0]
        assert (await s.post(BODY))[0] == 200
        assert served(fakes)[0] == before, "a target that just failed gets nothing while another is fit"


@pytest.mark.parametrize("retries, attempts", [("2", 3), ("0", 1), ("-1", 1)])
async def test_c112_retries_end_at_the_limit_and_the_engines_error_is_passed_on(
    tmp_path: Path, retries: str, attempts: int
) -> None:
    async with stage(tmp_path, "--retries", retries, mixed=1) as s:
        s.mixed[0].always = Fail.UNAVAILABLE
        status, headers, body = await s.post(BODY)
        assert (status, headers["server"], served(s.mixed)) == (503, "uvicorn", [attempts])
        assert json.loads(body)["error"]["message"] == "mixed-0 says 503"


@pytest.mark.parametrize("fail", [Fail.RESET, Fail.EMPTY, Fail.SHORT])
async def test_c111_when_nobody_answers_the_client_gets_a_json_502_never_an_empty_200(
    tmp_path: Path, fail: Fail
) -> None:
    async with stage(tmp_path, mixed=2) as s:
        for fake in s.mixed:
            fake.always = fail
        status, _, body = await s.post(BODY)
        assert (status, json.loads(body)["error"]["type"]) == (502, "BadGatewayError")


async def test_c111_a_broken_stream_ends_with_an_error_event_and_without_a_clean_finish(tmp_path: Path) -> None:
    async with stage(tmp_path, mixed=2) as s:
        s.mixed[0].always = s.mixed[1].always = Fail.BREAK
        async with s.client.post(s.url + "/v1/completions", data=json.dumps(BODY | {"stream": True})) as response:
            received = await broken_body(response)
        assert b"[DONE]" not in received
        last = [line for line in received.decode().split("\n") if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == 502
        assert sum(served(s.mixed)) == 1, "tokens that went out are never replayed"
        assert await s.metric("kvpool_router_broken_streams_total") == 1
        assert s.records[0]["outcome"] == "broken"


@pytest.mark.parametrize(
    "fail, reason, calls",
    [(None, "connect", 0), (Fail.INTERNAL, "status", 3), (Fail.RESET, "broken", 3)],
)
async def test_when_prefill_fails_decode_computes_alone_and_is_counted(
    tmp_path: Path, fail: Fail | None, reason: str, calls: int
) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        if fail is None:
            await s.prefill[0].kill()
        s.prefill[0].always = fail
        status, _, _ = await s.post(BODY)
        assert (status, served(s.prefill), served(s.decode)) == (200, [calls], [1])
        assert await s.metric(f'kvpool_router_decode_alone_total{{reason="{reason}"}}') == 1


async def test_a_killed_prefill_keeps_the_router_ready_and_later_requests_do_not_wait(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        await s.prefill[0].kill()
        assert (await s.post(BODY))[0] == 200
        assert await statuses(s, 5, BODY) == [200] * 5
        assert (await s.get("/readyz"))[0] == 200
        assert max(line["seconds"]["queue"] for line in s.records) < 0.5
        assert await s.metric('kvpool_router_decode_alone_total{reason="unavailable"}') == 5


async def test_policy_fail_waits_for_prefill_and_ends_with_503(tmp_path: Path) -> None:
    flags = ("--on-prefill-failure", "Fail", "--queue-timeout-seconds", "0.3")
    async with stage(tmp_path, *flags, prefill=1, decode=1) as s:
        await s.prefill[0].kill()
        status, headers, _ = await s.post(BODY)
        assert (status, headers["Retry-After"], served(s.decode)) == (503, "5", [0])


async def test_p2p_prefills_again_when_a_decoder_may_have_taken_the_blocks(tmp_path: Path) -> None:
    params = '{"remote_host":"h"}'
    async with stage(tmp_path, "--transfer", "P2P", prefill=1, decode=2, transfer_params=params) as s:
        s.decode[0].fails.append(Fail.RESET)
        s.decode[1].fails.append(Fail.RESET)
        status, _, _ = await s.post(BODY)
        assert (status, served(s.prefill), sum(served(s.decode))) == (200, [3], 3)


async def test_a_target_is_used_again_soon_after_it_comes_back(tmp_path: Path) -> None:
    async with stage(tmp_path, mixed=1) as s:
        await s.mixed[0].kill()
        waiting = asyncio.create_task(s.post(BODY))
        ejected = 'kvpool_router_targets{role_type="Mixed",state="Down"}'
        while await s.metric(ejected) != 1:
            assert not waiting.done(), "the request should wait for its only engine"
        await s.mixed[0].start()
        assert (await waiting)[0] == 200


@pytest.mark.parametrize("present", [[], ["Prefill"], ["Decode"]])
async def test_c113_without_a_pair_requests_wait_and_then_get_503(tmp_path: Path, present: list[str]) -> None:
    counts = {role.lower(): 1 for role in present}
    async with stage(tmp_path, "--queue-timeout-seconds", "0.2", **counts) as s:
        status, headers, body = await s.post(BODY)
        assert (status, headers["Retry-After"]) == (503, "5")
        assert json.loads(body)["error"]["type"] == "ServiceUnavailableError"
        assert 0.2 <= s.records[0]["seconds"]["queue"] < 2
        assert (await s.get("/healthz"))[0] == 200
        assert (await s.get("/readyz"))[0] == 503


async def test_a_waiting_request_goes_on_when_targets_appear(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=1, decode=1) as s:
        document = s.path.read_text()
        s.path.write_text('{"targets": []}')
        await _until_ready_is(s, "targets", 0)
        waiting = asyncio.create_task(s.post(BODY))
        await _until_ready_is(s, "queued", 1)
        assert (await s.get("/readyz"))[0] == 200, "the pair was lost just now: a request would wait, not fail"
        s.path.write_text(document)
        assert (await waiting)[0] == 200


async def _until_ready_is(s: Stage, key: str, wanted: int) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 5
    while True:
        value = json.loads((await s.get("/targets"))[1])[key]
        if (len(value) if isinstance(value, list) else value) == wanted:
            return
        assert loop.time() < deadline, f"/targets never showed {key}={wanted}, last {value}"
        await asyncio.sleep(0.02)


async def test_the_queue_is_bounded_and_one_more_gets_429(tmp_path: Path) -> None:
    async with stage(tmp_path, "--queue-size", "2", "--max-sequences-per-target", "1", mixed=1) as s:
        s.mixed[0].gate.clear()
        running = [asyncio.create_task(s.post(BODY)) for _ in range(3)]
        await _until_ready_is(s, "queued", 2)
        status, headers, _ = await s.post(BODY)
        assert (status, headers["Retry-After"]) == (429, "5")
        s.mixed[0].gate.set()
        assert [answer[0] for answer in await asyncio.gather(*running)] == [200] * 3
        assert s.mixed[0].most_running == 1


async def test_a_client_that_leaves_the_queue_takes_no_seat(tmp_path: Path) -> None:
    async with stage(tmp_path, "--max-sequences-per-target", "1", mixed=1) as s:
        s.mixed[0].gate.clear()
        first = asyncio.create_task(s.post(BODY))
        await eventually(lambda: s.mixed[0].running == 1, "the first request to run")
        with pytest.raises(TimeoutError):
            await s.post(BODY, timeout=aiohttp.ClientTimeout(total=0.2))
        await _until_ready_is(s, "queued", 0)
        s.mixed[0].gate.set()
        assert (await first)[0] == 200
        assert (await s.post(BODY))[0] == 200
        assert len(s.mixed[0].seen) == 2


async def test_a_request_over_its_time_limit_gets_504(tmp_path: Path) -> None:
    async with stage(tmp_path, "--request-timeout-seconds", "0.2", mixed=1) as s:
        s.mixed[0].gate.clear()
        status, _, body = await s.post(BODY)
        assert (status, json.loads(body)["error"]["type"]) == (504, "GatewayTimeoutError")
        await eventually(lambda: s.mixed[0].cancelled == 1, "the leg to be cancelled")


async def test_a_stream_over_its_time_limit_ends_with_an_error_event(tmp_path: Path) -> None:
    async with stage(tmp_path, "--request-timeout-seconds", "0.3", mixed=1) as s:
        s.mixed[0].hold_after = 1
        async with s.client.post(s.url + "/v1/completions", data=b'{"stream":true}') as response:
            received = await broken_body(response)
        assert b"took too long" in received
        await eventually(lambda: s.mixed[0].cancelled == 1, "the leg to be cancelled")


async def test_pairs_are_made_within_one_pairing_revision_only(tmp_path: Path) -> None:
    async with stage(tmp_path, prefill=2, decode=2) as s:
        entries = targets(("Prefill", s.prefill[:1]), ("Decode", s.decode[:1]), pairing="old")
        entries += targets(("Prefill", s.prefill[1:]), ("Decode", s.decode[1:]), pairing="new")
        s.path.write_text(json.dumps({"targets": entries}))
        await eventually_pairing(s, {"old", "new"})
        assert await statuses(s, 20, BODY) == [200] * 20
        pairs = {(line["prefill"], line["decode"]) for line in s.records}
        old, new = ((s.prefill[i].url[7:], s.decode[i].url[7:]) for i in (0, 1))
        assert pairs == {old, new}


async def eventually_pairing(s: Stage, wanted: set[str]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 5
    while {t["pairing"] for t in json.loads((await s.get("/targets"))[1])["targets"]} != wanted:
        assert loop.time() < deadline, f"/targets never showed the pairings {wanted}"
        await asyncio.sleep(0.02)


async def test_c106_metrics_hold_no_series_of_a_target_that_is_gone(tmp_path: Path) -> None:
    async with stage(tmp_path, mixed=2) as s:
        await s.post(BODY)
        s.path.write_text(json.dumps({"targets": targets(("Mixed", s.mixed[:1]))}))
        await _until_ready_is(s, "targets", 1)
        _, text = await s.get("/metrics")
        assert 'pod="mixed-0"' in text
        assert "mixed-1" not in text
        assert 'kvpool_router_targets{role_type="Mixed",state="Open"} 1.0' in text


async def test_c088_a_removed_target_gets_nothing_new_and_its_stream_finishes(tmp_path: Path) -> None:
    async with stage(tmp_path, mixed=2) as s:
        for fake in s.mixed:
            fake.hold_after = 1
        data = json.dumps(BODY | {"stream": True})
        async with s.client.post(s.url + "/v1/completions", data=data) as response:
            await response.content.readany()
            victim, other = sorted(s.mixed, key=lambda fake: -fake.running)
            s.path.write_text(json.dumps({"targets": targets(("Mixed", [other]))}))
            await _until_ready_is(s, "targets", 1)
            assert await statuses(s, 4, BODY) == [200] * 4
            assert (len(victim.seen), len(other.seen)) == (1, 4)
            victim.resume.set()
            assert (await response.content.read()).endswith(b"[DONE]\n\n")


@asynccontextmanager
async def process_engine(*flags: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.fake_engine", *flags, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = (await process.stdout.readline()).decode().strip()
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_frozen_engine_loses_its_waiting_requests_to_another_within_seconds(tmp_path: Path) -> None:
    flags = ("--health-interval-seconds", "0.1", "--health-timeout-seconds", "0.3")
    async with process_engine() as (process, url), stage(tmp_path, *flags, mixed=1) as s:
        frozen = {"type": "Mixed", "url": url, "name": "frozen"}
        s.path.write_text(json.dumps({"targets": [frozen, *targets(("Mixed", s.mixed))]}))
        await _until_ready_is(s, "targets", 2)
        os.kill(process.pid, signal.SIGSTOP)
        assert await statuses(s, 6, BODY) == [200] * 6
        assert max(line["seconds"]["total"] for line in s.records) < 6
        assert any(line["retries"] for line in s.records), "nobody was sent to the frozen engine"
        down = 'kvpool_router_targets{role_type="Mixed",state="Down"}'
        assert await s.metric(down) == 1
        os.kill(process.pid, signal.SIGCONT)
        deadline = asyncio.get_running_loop().time() + 5
        while await s.metric(down) != 0:
            assert asyncio.get_running_loop().time() < deadline, "the thawed engine was not taken back"


@pytest.mark.parametrize("role", ["Prefill", "Decode"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_process_killed_under_load_costs_no_request_that_had_not_begun_to_answer(
    tmp_path: Path, role: str, stream: bool
) -> None:
    slow: dict[str, Any] = {"first_token_seconds": 0.05, "token_seconds": 0.01}
    body = BODY | {"stream": stream, "max_tokens": 10}
    async with stage(tmp_path, prefill=1, decode=1, **slow) as s:
        async with process_engine("--first-token-seconds", "0.05", "--token-seconds", "0.01") as (process, url):
            entries = targets(("Prefill", s.prefill), ("Decode", s.decode))
            s.path.write_text(json.dumps({"targets": [*entries, {"type": role, "url": url, "name": "victim"}]}))
            await _until_ready_is(s, "targets", 3)
            outcomes: list[str] = []
            users = [asyncio.create_task(_user(s, body, 5, outcomes)) for _ in range(8)]
            await eventually(lambda: len(outcomes) >= 10, "some requests before the kill")
            process.kill()
            await asyncio.gather(*users)
        address = url.removeprefix("http://")
        assert any(address in (line.get("prefill"), line.get("decode")) for line in s.records), "the victim was idle"
        assert len(outcomes) == 40
        allowed = {"complete", "broken"} if stream and role == "Decode" else {"complete"}
        assert set(outcomes) <= allowed
        assert outcomes.count("complete") >= 32


async def _user(s: Stage, body: dict[str, Any], count: int, outcomes: list[str]) -> None:
    for _ in range(count):
        async with s.client.post(s.url + "/v1/completions", data=json.dumps(body)) as response:
            try:
                received = await response.read()
            except aiohttp.ClientPayloadError:
                outcomes.append("broken")
                continue
        complete = response.status == 200 and b" t9" in received
        outcomes.append("complete" if complete else f"{response.status} {received[-200:]!r}")
