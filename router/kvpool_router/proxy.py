"""From a client's request to the bytes it gets.

Promises: nothing is repeated once a byte has gone to the client; an engine's answer passes with its status, headers and
bytes unchanged; no clean end for an answer that broke off; both legs end when the client leaves.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

from kvpool_router import recompute, rewrite
from kvpool_router.access_log import Record
from kvpool_router.config import Config, Transfer
from kvpool_router.errors import RouterError, error_event
from kvpool_router.legs import TAIL_BYTES, Exchange, Legs
from kvpool_router.metrics import Metrics
from kvpool_router.pool import TargetPool
from kvpool_router.upstream import Answer, LegError, request_headers
from kvpool_router.wire import EngineClient

_CONTINUATIONS = 16  # a request that is given back more often does not fit on any engine


class _Broken(Exception):
    """The answer cannot be finished; the message says why."""


class _GivenBack(Exception):
    """The engine ended the request unfinished, to have it sent again."""


@dataclass(slots=True)
class _Stream:
    """The answer that goes out now."""

    out: web.StreamResponse
    is_event_stream: bool
    held: bytes = b""  # the beginning of an event that may turn out not to be for the client
    sent: list[bytes] = field(default_factory=list)  # kept only where the text may be needed to go on
    tail: bytes = b""
    continuations: int = 0


class Proxy:
    """Serves completions and chat completions."""

    def __init__(self, config: Config, pool: TargetPool, client: EngineClient, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._legs = Legs(config, pool, client, metrics)
        self._may_be_given_back = config.transfer is not Transfer.MIXED

    async def serve(self, request: web.BaseRequest, record: Record, started: float) -> web.StreamResponse:
        """Answer one request; raises RouterError for what the router has to say itself."""
        raw = await self._read(request)
        record.bytes_in = len(raw)
        try:
            body = rewrite.parse(raw)
        except rewrite.BadBody as error:
            raise RouterError(HTTPStatus.BAD_REQUEST, "bad_body", str(error)) from error
        path = request.raw_path if request.raw_path.startswith("/") else request.path_qs
        exchange = Exchange(path, record, body, request_headers(request.headers.items(), record.request_id))
        limit = self._config.request_timeout_seconds or None
        streams: list[_Stream] = []
        try:
            async with asyncio.timeout(limit):
                return await self._answer(request, exchange, started, streams)
        except TimeoutError as error:
            if streams:
                return await self._break_off(request, record, streams[0], "the request took too long")
            message = f"The request took longer than {limit:g} s."
            raise RouterError(HTTPStatus.GATEWAY_TIMEOUT, "request_timeout", message) from error
        finally:
            exchange.release()

    async def _read(self, request: web.BaseRequest) -> bytes:
        try:
            async with asyncio.timeout(self._config.body_timeout_seconds):
                return await request.read()
        except TimeoutError as error:
            message = "The request body did not arrive in time."
            raise RouterError(HTTPStatus.REQUEST_TIMEOUT, "body_timeout", message) from error
        except web.HTTPRequestEntityTooLarge as error:
            message = f"The request body is larger than {self._config.max_body_bytes} bytes."
            raise RouterError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", message) from error

    async def _answer(
        self, request: web.BaseRequest, x: Exchange, started: float, streams: list[_Stream]
    ) -> web.StreamResponse:
        """Open an answer and pass it on."""
        answer = await self._legs.open(x)
        x.record.status = answer.status
        x.record.outcome = "ok" if answer.status < 400 else "engine_error"
        x.record.seconds["first_byte"] = time.monotonic() - started
        answer.headers.setdefault("X-Request-Id", x.record.request_id)
        if answer.response is None:
            x.record.bytes_out = len(answer.first)
            self._metrics.usage("decode", answer.first[-TAIL_BYTES:])
            return web.Response(status=answer.status, headers=answer.headers, body=answer.first)
        out = web.StreamResponse(status=answer.status, headers=answer.headers)
        stream = _Stream(out, answer.is_event_stream)
        streams.append(stream)
        try:
            await out.prepare(request)
            await self._stream(x, answer, stream)
        except _Broken as error:
            return await self._break_off(request, x.record, stream, str(error))
        finally:
            answer.close()
        self._metrics.usage("decode", stream.tail)
        await out.write_eof()
        return out

    async def _stream(self, x: Exchange, answer: Answer, stream: _Stream) -> None:
        """Pass on one answer, and those that continue it."""
        while True:
            try:
                await self._pump(x, answer, stream)
                return
            except _GivenBack:
                answer.close()
            answer = await self._continue(x, stream)

    async def _pump(self, x: Exchange, answer: Answer, stream: _Stream) -> None:
        assert x.pair is not None
        try:
            async with x.pair.decode:
                await self._pass_on(x, stream, answer.first)
                async for chunk in answer.chunks():
                    await self._pass_on(x, stream, chunk)
        except LegError as error:
            raise _Broken(error.detail) from error
        except TimeoutError as error:
            raise _Broken("the engine does not answer its health checks") from error
        finally:
            answer.close()
        if stream.held:
            await self._write(x, stream, stream.held)

    async def _pass_on(self, x: Exchange, stream: _Stream, chunk: bytes) -> None:
        """Write a chunk; where the engine may give the request back, whole events only and not the one that says so."""
        if not (self._may_be_given_back and stream.is_event_stream):
            await self._write(x, stream, chunk)
            return
        events, stream.held = recompute.split(stream.held + chunk)
        if recompute.given_back(events):
            stream.held, events = b"", recompute.before(events)
            stream.sent.append(events)
            await self._write(x, stream, events)
            raise _GivenBack
        stream.sent.append(events)
        await self._write(x, stream, events)

    async def _write(self, x: Exchange, stream: _Stream, data: bytes) -> None:
        if data:
            await stream.out.write(data)
            x.record.bytes_out += len(data)
            stream.tail = (stream.tail + data)[-TAIL_BYTES:]

    async def _continue(self, x: Exchange, stream: _Stream) -> Answer:
        """Ask for the rest of an answer that was given back."""
        body = recompute.continuation(x.body, recompute.emitted(b"".join(stream.sent)))
        stream.continuations += 1
        if body is None or stream.continuations > _CONTINUATIONS:
            raise _Broken("the engine gave the request back and its text cannot be continued")
        self._metrics.retries.labels("decode", "recomputed").inc()
        x.record.retries += 1
        x.body, x.prefilled = rewrite.parse(body), None
        stream.sent.clear()
        try:
            answer = await self._legs.open(x)
        except RouterError as error:
            raise _Broken(error.message) from error
        if answer.status != HTTPStatus.OK or not answer.is_event_stream:
            answer.close()
            raise _Broken(f"the engine answered {answer.status} to the rest of the request")
        return answer

    async def _break_off(
        self, request: web.BaseRequest, record: Record, stream: _Stream, detail: str
    ) -> web.StreamResponse:
        """End a broken answer so that no client takes it for a complete one."""
        record.outcome = "broken"
        record.detail = f"decode {record.decode}: {detail}"
        self._metrics.broken.inc()
        if stream.is_event_stream:
            message = f"The engine broke off its answer: {detail}."
            await stream.out.write(error_event(HTTPStatus.BAD_GATEWAY, message))
        if request.transport is not None:
            # Closing without the last chunk, or short of Content-Length, is what tells the client.
            request.transport.close()
        return stream.out
