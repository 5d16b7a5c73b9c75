"""A small HTTP/1.1 client for engines: kept-alive connections, one exchange at a time on each, bytes in and out.

It exists because the router's own work is little and a general client's is not: most of a request's CPU time went
there. It speaks to trusted engines only and knows just what they use: no redirects, cookies, TLS, proxies or
decompression. Promises: a body that ends before its declared end raises `Broken`, never looks complete; a connection is
used again only after a complete answer; slow readers stop the engine from sending.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

_HEAD_LIMIT = 64 * 1024
_LINE_LIMIT = 4096
_HIGH_WATER = 256 * 1024
# uvicorn closes idle connections after 5 s; ours go first, so that a request rarely meets a closing one.
_IDLE_SECONDS = 4.0

_FRAMING = frozenset({"content-length", "transfer-encoding", "connection"})

Address = tuple[str, int]


class Broken(Exception):
    """The connection ended, or what came over it is no HTTP answer."""


class Refused(Exception):
    """No connection could be made."""


class BodyDecoder:
    """Takes the bytes after a response head and gives the body's; pure. `done` once the body is complete."""

    def __init__(self, length: int | None, *, chunked: bool, until_close: bool = False) -> None:
        self._chunked = chunked
        self._until_close = until_close
        self._left = length or 0  # of the body, or of the current chunk
        self._state = "size" if chunked else "data"
        self._rest = b""
        self.done = not chunked and not until_close and not self._left

    def feed(self, data: bytes) -> bytes:
        """The next part of the body; what follows the body's end is an error."""
        if self._chunked:
            return self._feed_chunked(data)
        if self._until_close:
            return data
        if len(data) > self._left:
            raise Broken("bytes after the end of the body")
        self._left -= len(data)
        self.done = not self._left
        return data

    def close(self) -> None:
        """The connection has ended."""
        if self._until_close:
            self.done = True
        elif not self.done:
            raise Broken("the connection ended inside the body")

    def _feed_chunked(self, data: bytes) -> bytes:
        data = self._rest + data
        self._rest = b""
        pieces: list[bytes] = []
        at = 0
        while at < len(data):
            if self.done:
                raise Broken("bytes after the end of the body")
            if self._state == "data":
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = "end"
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._rest = data[at:]
                if len(self._rest) > _LINE_LIMIT:
                    raise Broken("a chunk's head is too long")
                break
            self._line(data[at:end])
            at = end + 2
        return b"".join(pieces)

    def _line(self, line: bytes) -> None:
        """One line of the framing: a chunk's size, the empty line after its data, or a trailer."""
        if self._state == "size":
            digits = line.split(b";", 1)[0].strip()
            if not digits or digits.strip(b"0123456789abcdefABCDEF"):
                raise Broken("a chunk's size is no number")
            self._left = int(digits, 16)
            self._state = "data" if self._left else "trailer"
        elif self._state == "end":
            if line:
                raise Broken("a chunk is longer than its size")
            self._state = "size"
        elif not line:
            self.done = True


class Response:
    """The answer to one request. It lets go of its connection as soon as its last byte has arrived."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._head = b""
        self._decoder: BodyDecoder | None = None
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._error: Broken | None = None
        self._keep = False
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.length: int | None = None

    async def head(self) -> None:
        """Wait for status and headers."""
        while self._decoder is None:
            await self._wait()

    async def readany(self) -> bytes:
        """The next bytes of the body, empty at its end."""
        while not self._chunks:
            if self._decoder is not None and self._decoder.done:
                return b""
            await self._wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._connection is not None:
            self._connection.resume()
        return data

    async def read(self) -> bytes:
        """The whole body."""
        pieces = []
        while piece := await self.readany():
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Drop what has not arrived yet; the engine notices at once."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def feed(self, data: bytes) -> None:
        """Bytes from the connection."""
        try:
            if self._decoder is None:
                data = self._take_head(data)
            if self._decoder is not None and data and (piece := self._decoder.feed(data)):
                self._chunks.append(piece)
                self._buffered += len(piece)
        except Broken as error:
            self._error = error
            self.close()
        self._after_bytes()

    def lost(self, cause: Exception | None) -> None:
        """The end of the connection may be the end of the body, or a break."""
        self._connection = None
        try:
            if self._decoder is None:
                raise Broken(str(cause or "the connection ended before the answer"))
            self._decoder.close()
        except Broken as error:
            self._error = self._error or error
        self._after_bytes()

    def _after_bytes(self) -> None:
        connection = self._connection
        if connection is not None:
            if self._decoder is not None and self._decoder.done:
                self._connection = None
                connection.release(keep=self._keep)
            elif self._buffered > _HIGH_WATER:
                connection.pause()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take_head(self, data: bytes) -> bytes:
        """Collect the head; once it is whole set up the body and return what belongs to it."""
        self._head += data
        while True:
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                if len(self._head) > _HEAD_LIMIT:
                    raise Broken("the answer's head is too long")
                return b""
            self._head = rest
            self._parse_head(head)
            if self.status >= 200:  # 1xx only announces the answer
                return rest

    def _parse_head(self, head: bytes) -> None:
        first, *lines = head.decode("utf-8", "replace").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
            raise Broken("not an HTTP answer")
        self.status = int(rest[:3])
        self.headers = []
        framing: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise Broken("a header without a colon")
            value = value.strip()
            self.headers.append((name, value))
            lower = name.lower()
            if lower in _FRAMING:
                framing[lower] = value.lower()
        if self.status >= 200:
            self._set_body(version, framing)

    def _set_body(self, version: str, framing: dict[str, str]) -> None:
        length = framing.get("content-length")
        if length is not None and not length.isdecimal():
            raise Broken("a content length that is no number")
        if self.status in (204, 304):
            chunked, self.length = False, 0
        else:
            chunked = "chunked" in framing.get("transfer-encoding", "")
            self.length = None if chunked or length is None else int(length)
        until_close = not chunked and self.length is None
        self._keep = version == "HTTP/1.1" and "close" not in framing.get("connection", "") and not until_close
        self._decoder = BodyDecoder(self.length, chunked=chunked, until_close=until_close)


class Connection(asyncio.Protocol):
    """One connection to an engine: idle, or busy with one exchange."""

    def __init__(self, client: EngineClient, address: Address) -> None:
        self._client = client
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can take a request."""
        return self._transport is not None and not self._transport.is_closing()

    def request(self, data: bytes) -> Response:
        """Send a request; its answer arrives in what is returned."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._response = Response(self)
        assert self._transport is not None
        self._transport.write(data)
        return self._response

    def release(self, *, keep: bool) -> None:
        """The exchange is over; wait for another one, but not for long."""
        self._response = None
        self.resume()
        if keep and self.is_open and self._client.keep(self._address, self):
            self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.end)
        elif self._transport is not None:
            self._transport.close()

    def end(self) -> None:
        """Close while idle."""
        self._client.forget(self._address, self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Drop the exchange and the connection with it."""
        self._response = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """The reader is slow: let the engine wait."""
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """The reader has caught up."""
        if self._paused:
            self._paused = False
            if self.is_open and self._transport is not None:
                self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep-alive probes find a peer whose host is gone."""
        self._transport = cast(asyncio.Transport, transport)
        found = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the exchange, or leave the idle ones."""
        self._transport = None
        response, self._response = self._response, None
        if response is not None:
            response.lost(exc)
        else:
            self.end()

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer; nobody has asked for others."""
        if self._response is not None:
            self._response.feed(data)
        else:
            self.end()


class EngineClient:
    """Connections to all engines; those that are idle are kept for a while."""

    def __init__(self, connect_timeout_seconds: float) -> None:
        self._connect_timeout_seconds = connect_timeout_seconds
        self._idle: dict[Address, list[Connection]] = {}
        self._closed = False

    @property
    def idle(self) -> int:
        """How many connections wait for a request."""
        return sum(map(len, self._idle.values()))

    async def send(self, address: Address, request: bytes) -> Response:
        """Send a request, as bytes ready for the wire, and wait for the head of its answer."""
        connection = self._take(address) or await self._connect(address)
        response = connection.request(request)
        try:
            await response.head()
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        """Close every idle connection; those in use end with their answer."""
        self._closed = True
        for connections in list(self._idle.values()):
            for connection in list(connections):
                connection.end()

    def keep(self, address: Address, connection: Connection) -> bool:
        """Take an idle connection; False when none is wanted any more."""
        if not self._closed:
            self._idle.setdefault(address, []).append(connection)
        return not self._closed

    def forget(self, address: Address, connection: Connection) -> None:
        """A connection that is idle no longer."""
        connections = self._idle.get(address, [])
        if connection in connections:
            connections.remove(connection)
        if not connections:
            self._idle.pop(address, None)

    def _take(self, address: Address) -> Connection | None:
        """The idle connection that was used last."""
        connections = self._idle.get(address)
        while connections:
            connection = connections.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        host, port = address
        try:
            async with asyncio.timeout(self._connect_timeout_seconds):
                _, connection = await loop.create_connection(lambda: Connection(self, address), host, port)
                return connection
        except TimeoutError as error:
            raise Refused("connection timed out") from error
        except OSError as error:
            raise Refused(_describe(error)) from error


def _describe(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "name not found"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return error.strerror or str(error)
