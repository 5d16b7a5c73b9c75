"""A router in this process in front of fake engines on loopback."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kvpool_router.access_log import AccessLog
from kvpool_router.config import load
from kvpool_router.main import Router, running
from tests.support.fake_engine import FakeEngine, engine


async def eventually(condition: Callable[[], bool], awaited: str, seconds: float = 5.0) -> None:
    """Wait until the condition holds; fail with what was awaited."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() > deadline:
            pytest.fail(f"after {seconds} s still waiting for {awaited}")
        await asyncio.sleep(0.01)


@dataclass
class Stage:
    """One router, its engines, and a client."""

    router: Router
    client: aiohttp.ClientSession
    log: io.StringIO
    path: Path
    prefill: list[FakeEngine] = field(default_factory=list)
    decode: list[FakeEngine] = field(default_factory=list)
    mixed: list[FakeEngine] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.router.port}"

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    async def post(
        self, body: object, path: str = "/v1/completions", **options: Any
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One request with the body as JSON, or as it is when it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **options.pop("headers", {})}
        async with self.client.post(self.url + path, data=data, headers=headers, **options) as response:
            return response.status, response.headers, await response.read()

    async def get(self, path: str) -> tuple[int, str]:
        async with self.client.get(self.url + path) as response:
            return response.status, await response.text()

    async def metric(self, sample: str) -> float:
        """The value of one sample of /metrics, 0 when it is not there."""
        _, text = await self.get("/metrics")
        values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(sample + " ")]
        return float(values[0]) if values else 0.0


def targets(*groups: tuple[str, list[FakeEngine]], pairing: str = "") -> list[dict[str, str]]:
    return [
        {"type": role_type, "url": fake.url, "name": fake.name, "pairing": pairing}
        for role_type, fakes in groups
        for fake in fakes
    ]


@asynccontextmanager
async def stage(
    tmp_path: Path, *flags: str, prefill: int = 0, decode: int = 0, mixed: int = 0, **engine_options: Any
) -> AsyncIterator[Stage]:
    """A stage with so many engines of each role."""
    async with AsyncExitStack() as stack:
        fakes = {
            role: [
                await stack.enter_async_context(engine(name=f"{role.lower()}-{index}", **engine_options))
                for index in range(count)
            ]
            for role, count in (("Prefill", prefill), ("Decode", decode), ("Mixed", mixed))
        }
        path = tmp_path / "targets.json"
        path.write_text(json.dumps({"targets": targets(*fakes.items())}))
        transfer = [] if "--transfer" in flags else ["--transfer", "Mixed" if mixed else "Pool"]
        fixed = ["--static", str(path), "--host", "127.0.0.1", "--port", "0", "--health-interval-seconds", "0"]
        fixed += ["--shutdown-delay-seconds", "0", "--queue-timeout-seconds", "5"]
        log = io.StringIO()
        config = load([*fixed, *transfer, *flags], {})
        router = await stack.enter_async_context(running(config, AccessLog(config, log)))
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        yield Stage(router, client, log, path, fakes["Prefill"], fakes["Decode"], fakes["Mixed"])
