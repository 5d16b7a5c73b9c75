"""One leg: a request to one engine, up to the first byte of its answer.

Promises: a leg either yields an answer that has begun (status, headers and at least one byte, or a complete body), or
raises `LegError`, after which nothing of it has reached the client. Bodies pass as bytes; nothing is decompressed,
redirected or retried here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from multidict import CIMultiDict

from kvpool_router.pool import Fault, Lease, Target
from kvpool_router.wire import Broken, EngineClient, Refused, Response

# Below this a body with a known length is read whole before the client hears of it: a break can then still be retried.
_WHOLE_BODY_LIMIT = 8 * 1024 * 1024
RETRYABLE_STATUS = frozenset({500, 502, 503, 504})

_HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
# The body is sent anew, already unpacked by the server, and in one piece.
_REQUEST_ONLY = frozenset({"host", "content-length", "content-encoding", "expect", "x-request-id"})


class LegError(Exception):
    """A leg that ended before its first byte."""

    def __init__(self, fault: Fault, detail: str, answer: Answer | None = None) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail
        self.answer = answer


@dataclass(slots=True)
class Answer:
    """An answer that has begun. `first` is the whole body when `response` is None."""

    status: int
    headers: CIMultiDict[str]
    first: bytes
    response: Response | None

    @property
    def is_event_stream(self) -> bool:
        """Whether the client can be told of a break by a server-sent event."""
        return self.headers.get("Content-Type", "").startswith("text/event-stream")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes after `first`; raises LegError when the engine breaks off."""
        if self.response is None:
            return
        try:
            while chunk := await self.response.readany():
                yield chunk
        except Broken as error:
            raise LegError(Fault.BROKEN, str(error)) from error

    def close(self) -> None:
        """Drop what is left of the answer; the engine notices at once."""
        if self.response is not None:
            self.response.close()


def end_to_end(headers: Iterable[tuple[str, str]], *, drop: frozenset[str] = frozenset()) -> Iterable[tuple[str, str]]:
    """The headers that travel on: all but hop-by-hop ones, those named in Connection, and those in `drop`."""
    headers = list(headers)
    unwanted = _HOP_BY_HOP | drop
    named = [value for name, value in headers if name.lower() == "connection"]
    if named:
        unwanted |= {token.strip().lower() for value in named for token in value.split(",")}
    return ((name, value) for name, value in headers if name.lower() not in unwanted)


def request_headers(headers: Iterable[tuple[str, str]], request_id: str) -> bytes:
    """What an engine gets to see of the client's headers, ready for the wire: authorization and trace headers stay."""
    passed = [*end_to_end(headers, drop=_REQUEST_ONLY), ("X-Request-Id", request_id)]
    return "".join(f"{name}: {value}\r\n" for name, value in passed).encode("utf-8", "surrogateescape")


def _request(method: str, target: Target, path: str, headers: bytes, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: {target.endpoint.authority}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + headers + b"\r\n" + body


async def send(
    client: EngineClient, lease: Lease, path: str, headers: bytes, body: bytes, *, whole: bool = False
) -> Answer:
    """Send one leg and wait for its first byte (`whole`: for all of it)."""
    target = lease.target
    try:
        async with lease:
            response = await client.send(target.address, _request("POST", target, path, headers, body))
            try:
                return await _begin(response, whole=whole)
            except BaseException:
                response.close()
                raise
    except TimeoutError as error:
        raise LegError(Fault.LOST, "the engine does not answer its health checks") from error
    except Refused as error:
        raise LegError(Fault.CONNECT, str(error)) from error
    except Broken as error:
        raise LegError(Fault.BROKEN, str(error)) from error


async def _begin(response: Response, *, whole: bool) -> Answer:
    headers = CIMultiDict(end_to_end(response.headers))
    length = response.length
    if whole or response.status >= 400 or (length is not None and length <= _WHOLE_BODY_LIMIT):
        answer = Answer(response.status, headers, await response.read(), None)
    else:
        answer = Answer(response.status, headers, await response.readany(), response)
    if answer.status in RETRYABLE_STATUS:
        raise LegError(Fault.STATUS, f"the engine answered {answer.status}", answer)
    if not answer.first and answer.status == 200:
        raise LegError(Fault.EMPTY, "the engine answered 200 without a body")
    return answer


async def get(client: EngineClient, target: Target, path: str, headers: bytes, seconds: float) -> Answer | None:
    """A small GET, whole; None when the engine does not answer in time."""
    try:
        async with asyncio.timeout(seconds):
            response = await client.send(target.address, _request("GET", target, path, headers, b""))
            try:
                return Answer(response.status, CIMultiDict(end_to_end(response.headers)), await response.read(), None)
            finally:
                response.close()
    except (Refused, Broken, TimeoutError):
        return None


async def is_alive(client: EngineClient, target: Target, seconds: float) -> bool:
    """One health check: any answer below 500 in time."""
    answer = await get(client, target, "/health", b"", seconds)
    return answer is not None and answer.status < 500
