"""A small server shaped like vLLM's OpenAI API, for tests and benchmarks of the router.

It answers deterministically, records what it was sent, and can be told to fail in the ways a real engine fails.
As a program (`python3 -m tests.support.fake_engine --port 0`) it prints its port, for tests that need a process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

SERVER = "uvicorn"


class Fail(Enum):
    """One way to fail one request."""

    BAD_REQUEST = 400
    INTERNAL = 500
    UNAVAILABLE = 503
    RESET = "closes the connection before the first byte"
    SHORT = "closes the connection inside a body of known length"
    EMPTY = "200 without a body"
    BREAK = "closes the connection in the middle of the stream"
    GIVE_BACK = "ends the answer after two tokens with stop_reason recomputed"
    GIVE_BACK_AT_ONCE = "the same before the first token"


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: CIMultiDict[str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


@dataclass
class FakeEngine:
    """State and switches of one engine; `serve` runs it."""

    name: str = "engine"
    model: str = "tiny"
    cached_tokens: int = 0
    transfer_params: str | None = None  # answered to do_remote_decode, as JSON text
    token_seconds: float = 0.0
    first_token_seconds: float = 0.0
    record: bool = True
    port: int = 0
    seen: list[Seen] = field(default_factory=list)
    fails: deque[Fail] = field(default_factory=deque)
    always: Fail | None = None
    healthy: bool = True
    running: int = 0
    most_running: int = 0
    cancelled: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)  # every answer waits for it
    hold_after: int | None = None  # streams pause before this token until `resume`
    resume: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen; on the port used before, if there was one."""
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, backlog=1024).start()
        self.port = int(self._runner.addresses[0][1])

    async def kill(self) -> None:
        """Die at once: the port refuses, open connections end."""
        if self._runner is not None and self._runner.server is not None:
            for connection in self._runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/health":
            return web.Response(status=200 if self.healthy else 503)
        if request.path == "/v1/models":
            card = {"id": self.model, "object": "model", "owned_by": "vllm", "max_model_len": 4096}
            return web.json_response({"object": "list", "data": [card]}, headers={"server": SERVER})
        if request.path not in ("/v1/completions", "/v1/chat/completions"):
            return web.json_response({"detail": "Not Found"}, status=404)
        raw = await request.read()
        if self.record:
            self.seen.append(Seen(request.path_qs, CIMultiDict(request.headers), raw))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gate.wait()
            return await self._generate(request, json.loads(raw))
        except (asyncio.CancelledError, ConnectionError):
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _generate(self, request: web.BaseRequest, body: dict[str, Any]) -> web.StreamResponse:
        fail = self.always or (self.fails.popleft() if self.fails else None)
        if body.get("model") not in (None, self.model):
            return _error(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        if fail in (Fail.BAD_REQUEST, Fail.INTERNAL, Fail.UNAVAILABLE):
            return _error(int(fail.value), f"{self.name} says {fail.value}", "InternalServerError")
        if fail is Fail.RESET:
            return _closed(request)
        if fail is Fail.EMPTY:
            return web.Response(status=200, headers={"Content-Type": "application/json"})
        if self.first_token_seconds:
            await asyncio.sleep(self.first_token_seconds)
        if body.get("stream"):
            return await self._stream(request, body, fail)
        if fail in (Fail.GIVE_BACK, Fail.GIVE_BACK_AT_ONCE):
            body_back = _given_back(request, self.model)
            return web.Response(body=body_back, headers={"Content-Type": "application/json", "server": SERVER})
        answer = _dump(self._complete(request, body))
        if fail is Fail.SHORT:
            out = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(answer))})
            await out.prepare(request)
            await out.write(answer[: len(answer) // 2])
            return _closed(request, out)
        return web.Response(body=answer, headers={"Content-Type": "application/json", "server": SERVER})

    async def _stream(self, request: web.BaseRequest, body: dict[str, Any], fail: Fail | None) -> web.StreamResponse:
        out = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", "server": SERVER})
        await out.prepare(request)
        for index, event in enumerate(self._events(request, body)):
            if index == 2 and fail is Fail.BREAK:
                return _closed(request, out)
            if (index == 2 and fail is Fail.GIVE_BACK) or fail is Fail.GIVE_BACK_AT_ONCE:
                await out.write(b"data: " + _given_back(request, self.model) + b"\n\ndata: [DONE]\n\n")
                break
            if index == self.hold_after:
                await self.resume.wait()
            await out.write(b"data: " + event + b"\n\n")
            if self.token_seconds:
                await asyncio.sleep(self.token_seconds)
        await out.write_eof()
        return out

    def _events(self, request: web.BaseRequest, body: dict[str, Any]) -> Iterator[bytes]:
        chat = request.path == "/v1/chat/completions"
        head = _head(self.model, "chat.completion.chunk" if chat else "text_completion", chat)
        count = _count(body)
        for index in range(count):
            last = "length" if index == count - 1 else None
            part: dict[str, Any] = {"delta": {"content": f" t{index}"}} if chat else {"text": f" t{index}"}
            choice = {"index": 0, **part, "logprobs": None, "finish_reason": last, "stop_reason": None}
            yield _dump({**head, "choices": [choice]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _dump({**head, "choices": [], "usage": self._usage(body)})
        yield b"[DONE]"

    def _complete(self, request: web.BaseRequest, body: dict[str, Any]) -> dict[str, Any]:
        chat = request.path == "/v1/chat/completions"
        text = "".join(f" t{index}" for index in range(_count(body)))
        choices = []
        for index in range(int(body.get("n") or 1)):
            part: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            choices.append({"index": index, **part, "logprobs": None, "finish_reason": "length", "stop_reason": None})
        answer = {**_head(self.model, "chat.completion" if chat else "text_completion", chat), "choices": choices}
        answer |= {"usage": self._usage(body), "kv_transfer_params": None}
        if (body.get("kv_transfer_params") or {}).get("do_remote_decode") and self.transfer_params is not None:
            answer["kv_transfer_params"] = json.loads(self.transfer_params)
        return answer

    def _usage(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = len(str(body.get("prompt") or body.get("messages") or "")) // 4 + 1
        count = _count(body)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": prompt + count, "completion_tokens": count}
        return usage | {"prompt_tokens_details": {"cached_tokens": self.cached_tokens}}


def _count(body: dict[str, Any]) -> int:
    return int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)


def _head(model: str, kind: str, chat: bool) -> dict[str, Any]:
    prefix = "chatcmpl" if chat else "cmpl"
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _given_back(request: web.BaseRequest, model: str) -> bytes:
    """What vllm-ascend's recompute scheduler ends a request with."""
    chat = request.path == "/v1/chat/completions"
    part: dict[str, Any] = {"delta": {"content": ""}} if chat else {"text": ""}
    choice = {"index": 0, **part, "logprobs": None, "finish_reason": "stop", "stop_reason": "recomputed"}
    return _dump({**_head(model, "chat.completion.chunk" if chat else "text_completion", chat), "choices": [choice]})


def _error(status: int, message: str, kind: str) -> web.Response:
    error = {"message": message, "type": kind, "param": None, "code": status}
    return web.Response(
        status=status, body=_dump({"error": error}), headers={"Content-Type": "application/json", "server": SERVER}
    )


def _closed(request: web.BaseRequest, out: web.StreamResponse | None = None) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response() if out is None else out


@asynccontextmanager
async def engine(**options: Any) -> AsyncIterator[FakeEngine]:
    """A running engine on a free loopback port."""
    fake = FakeEngine(**options)
    await fake.start()
    try:
        yield fake
    finally:
        fake.gate.set()
        fake.resume.set()
        await fake.kill()


async def _main() -> None:
    parser = argparse.ArgumentParser(description="A fake vLLM engine.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--first-token-seconds", type=float, default=0.0)
    parser.add_argument("--token-seconds", type=float, default=0.0)
    parser.add_argument("--transfer-params", help="JSON object answered to do_remote_decode")
    given = parser.parse_args()
    fake = FakeEngine(
        port=given.port,
        first_token_seconds=given.first_token_seconds,
        token_seconds=given.token_seconds,
        transfer_params=given.transfer_params,
        record=False,
    )
    await fake.start()
    print(fake.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
