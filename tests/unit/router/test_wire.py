"""The engine client: framing as pure functions, and whole exchanges against a server of raw bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpool_router.wire import BodyDecoder, Broken, EngineClient, Refused

OK = b"HTTP/1.1 200 OK\r\n"


def encode(chunks: list[bytes]) -> bytes:
    """Chunked transfer encoding."""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    points = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(points)]


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(0, 400), max_size=12))
def test_a_chunked_body_is_the_same_however_it_is_cut(chunks: list[bytes], cuts: list[int]) -> None:
    decoder = BodyDecoder(None, chunked=True)
    received = b""
    for piece in pieces(encode(chunks), cuts):
        assert not decoder.done, "done before the last byte"
        received += decoder.feed(piece)
    assert decoder.done
    assert received == b"".join(chunks)


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=4), st.integers(0, 200))
def test_a_chunked_body_that_is_cut_off_never_looks_complete(chunks: list[bytes], cut: int) -> None:
    whole = encode(chunks)
    decoder = BodyDecoder(None, chunked=True)
    decoder.feed(whole[: cut % len(whole)])
    assert not decoder.done
    with pytest.raises(Broken):
        decoder.close()


@pytest.mark.parametrize(
    "data",
    [b"x\r\n", b"\r\n", b"-1\r\n", b"0x5\r\nhello\r\n", b"2\r\nabc\r\n", b"0\r\n\r\nmore", b"5" * 5000],
)
def test_broken_chunk_framing_is_refused(data: bytes) -> None:
    with pytest.raises(Broken):
        BodyDecoder(None, chunked=True).feed(data)


def test_chunk_extensions_and_trailers_are_passed_over() -> None:
    decoder = BodyDecoder(None, chunked=True)
    assert decoder.feed(b"3;x=y\r\nabc\r\n0\r\nTrailer: 1\r\n\r\n") == b"abc"
    assert decoder.done


def test_a_body_of_known_length_ends_there() -> None:
    decoder = BodyDecoder(5, chunked=False)
    assert decoder.feed(b"abc") == b"abc"
    with pytest.raises(Broken):
        decoder.close()
    decoder.feed(b"de")
    assert decoder.done
    with pytest.raises(Broken):
        decoder.feed(b"f")
    assert BodyDecoder(0, chunked=False).done


class Scripted:
    """A server that answers each request on any connection with the next of its answers."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.connections = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                answer = self.answers.pop(0)
                for piece in answer.split(b"|"):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.001)
                if answer.endswith(b"|"):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[EngineClient, Scripted]]:
    """A client, and a server with these answers: `|` is a pause, at the end it closes the connection."""
    script = Scripted(list(answers))
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    client = EngineClient(1.0)
    try:
        yield client, script
    finally:
        client.close()
        server.close()


async def until_nothing_is_idle(client: EngineClient) -> None:
    """Until the server's close has arrived."""
    deadline = asyncio.get_running_loop().time() + 5
    while client.idle:
        assert asyncio.get_running_loop().time() < deadline, "the closed connection stayed idle"
        await asyncio.sleep(0)


REQUEST = b"GET / HTTP/1.1\r\n\r\n"


async def exchange(client: EngineClient, script: Scripted) -> tuple[int, bytes]:
    async with asyncio.timeout(5):
        response = await client.send(("127.0.0.1", script.port), REQUEST)
        try:
            return response.status, await response.read()
        finally:
            response.close()


@pytest.mark.parametrize(
    "answer, status, body",
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.1 2|00 OK\r\nContent-Le|ngth: 3\r\n\r|\n|ab|c", 200, b"abc"),
        (OK + b"content-length: 0\r\n\r\n", 200, b""),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r|\nab|c\r\n0\r\n|\r\n", 200, b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\na", 200, b"a"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\na", 503, b"a"),
        (OK + b"\r\nuntil the end|", 200, b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold|", 200, b"old"),
    ],
)
async def test_answers_are_read_whole(answer: bytes, status: int, body: bytes) -> None:
    async with scripted(answer) as (client, script):
        assert await exchange(client, script) == (status, body)


@pytest.mark.parametrize(
    "answer",
    [
        b"|",
        b"HTTP/1.1 200 OK\r\n|",
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length: x\r\n\r\n",
        OK + b"Content-Length: 9\r\n\r\nabc|",
        OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc|",
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n|",
        OK + b"X: " + b"y" * 70_000,
    ],
)
async def test_an_answer_that_breaks_off_or_is_no_http_is_an_error(answer: bytes) -> None:
    async with scripted(answer) as (client, script):
        with pytest.raises(Broken):
            await exchange(client, script)


async def test_a_connection_is_used_again_after_a_complete_answer() -> None:
    answers = [OK + b"Content-Length: 1\r\n\r\na", OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OK + b"\r\nz|"]
    async with scripted(*answers) as (client, script):
        for _ in range(3):
            await exchange(client, script)
        assert script.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        OK + b"Connection: close\r\nContent-Length: 1\r\n\r\na",
        OK + b"\r\nuntil the end|",
        OK + b"Content-Length: 1\r\n\r\na|",
    ],
)
async def test_a_connection_that_closes_is_not_used_again(first: bytes) -> None:
    async with scripted(first, OK + b"Content-Length: 1\r\n\r\nb") as (client, script):
        assert await exchange(client, script) in ((200, b"a"), (200, b"until the end"))
        await until_nothing_is_idle(client)
        assert await exchange(client, script) == (200, b"b")
        assert script.connections == 2


async def test_an_answer_that_is_dropped_closes_its_connection_and_no_other() -> None:
    long = OK + b"Content-Length: 100\r\n\r\nabc"
    async with scripted(long, OK + b"Content-Length: 1\r\n\r\nb") as (client, script):
        response = await client.send(("127.0.0.1", script.port), REQUEST)
        assert await response.readany() == b"abc"
        response.close()
        assert await exchange(client, script) == (200, b"b")
        response.close()
        assert script.connections == 2


async def test_a_slow_reader_makes_the_engine_wait() -> None:
    sent = 0
    total = 64 * 1024 * 1024

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % total)
        while sent < total:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = EngineClient(1.0)
    response = await client.send(("127.0.0.1", server.sockets[0].getsockname()[1]), REQUEST)
    before = -1
    while before != sent:
        before = sent
        await asyncio.sleep(0.05)
    assert sent < total / 2, "the engine sent everything to a reader that had read nothing"
    assert len(await response.read()) == total
    client.close()
    server.close()


async def test_a_closed_port_is_refused() -> None:
    async with scripted() as (client, script):
        port = script.port
    with pytest.raises(Refused, match="connection refused"):
        await client.send(("127.0.0.1", port), REQUEST)
