"""The router as a process: start, stop, wrong flags, raw bytes on the wire."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tests.router.conftest import stage, targets
from tests.support.fake_engine import FakeEngine, engine

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "router"), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Process:
    handle: asyncio.subprocess.Process
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


async def run(*flags: str) -> tuple[int | None, str]:
    """Run to the end; exit code and standard error."""
    process = await _spawn(*flags)
    _, err = await asyncio.wait_for(process.communicate(), 20)
    return process.returncode, err.decode()


async def _spawn(*flags: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kvpool_router.main", *flags,
        env=ENVIRONMENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@asynccontextmanager
async def process(tmp_path: Path, fake: FakeEngine, *flags: str) -> AsyncIterator[Process]:
    path = tmp_path / "targets.json"
    path.write_text(json.dumps({"targets": targets(("Mixed", [fake]))}))
    fixed = ("--static", str(path), "--transfer", "Mixed", "--host", "127.0.0.1", "--port", "0")
    handle = await _spawn(*fixed, *flags)
    assert handle.stderr is not None
    try:
        line = json.loads(await asyncio.wait_for(handle.stderr.readline(), 20))
        yield Process(handle, int(line["message"].split("port ")[1].split(" ")[0]))
    finally:
        if handle.returncode is None:
            handle.kill()
        await handle.wait()


async def _status(client: aiohttp.ClientSession, url: str) -> int:
    try:
        async with client.get(url) as response:
            return response.status
    except aiohttp.ClientConnectionError:
        return 0


async def until_unready(client: aiohttp.ClientSession, url: str) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    while await _status(client, url + "/readyz") != 503:
        assert asyncio.get_running_loop().time() < deadline, "/readyz never turned 503"
        await asyncio.sleep(0.01)


async def test_sigterm_turns_unready_at_once_then_drains_and_exits_0(tmp_path: Path) -> None:
    async with engine(hold_after=1) as fake, aiohttp.ClientSession() as client:
        async with process(tmp_path, fake, "--shutdown-delay-seconds", "1") as router:
            assert await _status(client, router.url + "/readyz") == 200
            async with client.post(router.url + "/v1/completions", data=b'{"stream":true}') as response:
                await response.content.readany()
                router.handle.send_signal(signal.SIGTERM)
                states: list[int] = []
                while (state := await _status(client, router.url + "/readyz")) != 0:
                    states.append(state)
                    await asyncio.sleep(0.05)
                assert 503 in states, "the port closed before anybody could see that it is not ready"
                assert router.handle.returncode is None, "the process left a running request"
                fake.resume.set()
                assert (await response.content.read()).endswith(b"data: [DONE]\n\n")
            assert await asyncio.wait_for(router.handle.wait(), 5) == 0


async def test_new_requests_are_served_during_the_shutdown_delay_and_their_connections_closed(tmp_path: Path) -> None:
    async with engine() as fake, aiohttp.ClientSession() as client:
        async with process(tmp_path, fake, "--shutdown-delay-seconds", "2") as router:
            router.handle.send_signal(signal.SIGTERM)
            await until_unready(client, router.url)
            async with client.post(router.url + "/v1/completions", data=b'{"prompt":"x"}') as response:
                assert response.status == 200
                assert response.headers["Connection"] == "close"
            assert await asyncio.wait_for(router.handle.wait(), 10) == 0


async def test_the_drain_limit_cuts_off_what_is_left_without_a_clean_finish_and_exits_0(tmp_path: Path) -> None:
    async with engine(hold_after=1) as fake, aiohttp.ClientSession() as client:
        async with process(tmp_path, fake, "--shutdown-delay-seconds", "0", "--drain-seconds", "0.2") as router:
            async with client.post(router.url + "/v1/completions", data=b'{"stream":true}') as response:
                await response.content.readany()
                router.handle.send_signal(signal.SIGTERM)
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.content.read()
            assert await asyncio.wait_for(router.handle.wait(), 5) == 0


@pytest.mark.parametrize(
    "flags, code, part",
    [
        (("--port", "x"), 2, "--port: expected an integer"),
        (("--static", "/nowhere.json"), 1, "/nowhere.json"),
        (("--namespace", "n", "--group", "g"), 1, "Service host/port is not set"),
    ],
)
async def test_wrong_flags_stop_the_process_with_one_line(flags: tuple[str, ...], code: int, part: str) -> None:
    returned, err = await run(*flags)
    assert returned == code
    assert part in err
    assert err.count("\n") == 1


async def _first_line(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.readline(), 5)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Bad Header: 1\r\n",
    ],
)
async def test_smuggled_framing_is_refused_and_reaches_no_engine(tmp_path: Path, headers: bytes) -> None:
    async with stage(tmp_path, mixed=1) as s:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + headers
        line = await _first_line(s.router.port, head + b"\r\n0\r\n\r\n")
        assert b" 400 " in line
        assert s.mixed[0].seen == []


async def test_a_client_that_never_finishes_its_body_gets_408(tmp_path: Path) -> None:
    async with stage(tmp_path, "--body-timeout-seconds", "0.2", mixed=1) as s:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"
        assert b" 408 " in await _first_line(s.router.port, head)
        assert s.mixed[0].seen == []


async def test_a_client_that_sends_gzip_gets_it_unpacked_for_the_engine(tmp_path: Path) -> None:
    body = b'{"prompt":"x","temperature":1.10}'
    async with stage(tmp_path, mixed=1) as s:
        status, _, _ = await s.post(gzip.compress(body), headers={"Content-Encoding": "gzip"})
        assert status == 200
        [seen] = s.mixed[0].seen
        assert seen.raw == body
        assert "Content-Encoding" not in seen.headers
