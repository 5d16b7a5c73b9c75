"""One leg: a request to one engine, up to the first byte of its answer.

Promises: a leg either yields an answer that has begun (status, headers and at least one byte, or a complete body), or
raises `LegError`, after which nothing of it has reached the client. Bodies pass as bytes; nothing is decompressed,
redirected or retried here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from kvpool_router.config import Config
from kvpool_router.pool import Fault, Lease

# Below this a body with a known length is read whole before the client hears of it: a break can then still be retried.
_WHOLE_BODY_LIMIT = 8 * 1024 * 1024
# uvicorn closes idle connections after 5 s; ours go first, so that a request rarely meets a closing one.
_KEEPALIVE_SECONDS = 4.0
RETRYABLE_STATUS = frozenset({500, 502, 503, 504})

_HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
# The body is sent anew, already unpacked by the server, and in one piece.
_REQUEST_ONLY = frozenset({"host", "content-length", "content-encoding", "expect"})


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
    response: ClientResponse | None

    @property
    def is_event_stream(self) -> bool:
        """Whether the client can be told of a break by a server-sent event."""
        return self.headers.get("Content-Type", "").startswith("text/event-stream")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes after `first`; raises LegError when the engine breaks off."""
        if self.response is None:
            return
        try:
            async for chunk in self.response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise LegError(Fault.BROKEN, _describe(error)) from error

    def close(self) -> None:
        """Drop what is left of the answer; the engine notices at once."""
        if self.response is not None:
            self.response.close()


def end_to_end(headers: CIMultiDictProxy[str], *, drop: frozenset[str] = frozenset()) -> CIMultiDict[str]:
    """The headers that travel on: all but hop-by-hop ones, those named in Connection, and those in `drop`."""
    named = frozenset(token.strip().lower() for value in headers.getall("Connection", ()) for token in value.split(","))
    unwanted = _HOP_BY_HOP | named | drop
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in unwanted)


def request_headers(headers: CIMultiDictProxy[str], request_id: str) -> CIMultiDict[str]:
    """What an engine gets to see of the client's headers: authorization and trace headers stay as they are."""
    passed = end_to_end(headers, drop=_REQUEST_ONLY)
    passed["X-Request-Id"] = request_id
    return passed


def new_session(config: Config) -> ClientSession:
    """The one client session: no connection limit, no redirects, no added headers, no cookies, no proxy settings."""
    return ClientSession(
        connector=TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS, ttl_dns_cache=10),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None, sock_connect=config.connect_timeout_seconds),
        auto_decompress=False,
        trust_env=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
    )


async def send(
    session: ClientSession, lease: Lease, path: str, headers: CIMultiDict[str], body: bytes, *, whole: bool = False
) -> Answer:
    """Send one leg and wait for its first byte (`whole`: for all of it)."""
    url = URL(lease.target.url + path, encoded=True)
    try:
        async with lease:
            response = await session.request("POST", url, data=body, headers=headers, allow_redirects=False)
            try:
                return await _begin(response, whole=whole)
            except BaseException:
                response.close()
                raise
    except TimeoutError as error:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            raise LegError(Fault.CONNECT, "connection timed out") from error
        raise LegError(Fault.LOST, "the engine does not answer its health checks") from error
    except aiohttp.ClientConnectorError as error:
        raise LegError(Fault.CONNECT, _describe(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise LegError(Fault.BROKEN, _describe(error)) from error


async def _begin(response: ClientResponse, *, whole: bool) -> Answer:
    headers = end_to_end(response.headers)
    length = response.content_length
    if whole or response.status >= 400 or (length is not None and length <= _WHOLE_BODY_LIMIT):
        answer = Answer(response.status, headers, await response.read(), None)
    else:
        answer = Answer(response.status, headers, await response.content.readany(), response)
    if answer.status in RETRYABLE_STATUS:
        raise LegError(Fault.STATUS, f"the engine answered {answer.status}", answer)
    if not answer.first and answer.status == 200:
        raise LegError(Fault.EMPTY, "the engine answered 200 without a body")
    return answer


async def is_alive(session: ClientSession, url: str, timeout_seconds: float) -> bool:
    """One health check: any answer below 500 in time."""
    try:
        async with asyncio.timeout(timeout_seconds):
            async with session.get(url + "/health", allow_redirects=False) as response:
                return response.status < 500
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


def _describe(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, socket.gaierror):
        return "name not found"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
