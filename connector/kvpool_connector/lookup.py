"""How the scheduler asks rank 0's worker how much of a prompt is in the pool.

The scheduler decides for every request of the engine, so it must never wait longer than the deadline, and not twice
for the same trouble: while one question is unanswered the next are answered "unknown" at once. A frame is a version
byte, the question's number and the block hashes; the reply is the number, a status and a count of blocks.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import zmq

logger = logging.getLogger("vllm.kvpool.lookup")

_VERSION = 1
_QUESTION = struct.Struct("!BQH")  # version, number, bytes of a hash
_REPLY = struct.Struct("!QBI")  # number, whether the store was asked, blocks
_FORGET_AFTER = 30.0
_POLL_MS = 200

CountBlocks = Callable[[Sequence[bytes]], "int | None"]


def socket_address(engine_id: str, port: str) -> str:
    """Where the two sides of one engine meet; another engine on the same machine never does."""
    folder = os.environ.get("VLLM_RPC_BASE_PATH") or tempfile.gettempdir()
    name = hashlib.sha256(f"{engine_id}/{port}".encode()).hexdigest()[:16]
    return f"ipc://{folder}/kvpool-{name}"


def encode_question(number: int, hashes: Sequence[bytes]) -> bytes:
    """The question as bytes."""
    return _QUESTION.pack(_VERSION, number, len(hashes[0]) if hashes else 0) + b"".join(hashes)


def decode_question(frame: bytes) -> tuple[int, list[bytes]]:
    """Number and hashes of a question. Raises ValueError for another version."""
    version, number, size = _QUESTION.unpack_from(frame)
    if version != _VERSION:
        raise ValueError(f"look-up of version {version}, not {_VERSION}")
    body = frame[_QUESTION.size :]
    return number, [body[at : at + size] for at in range(0, len(body), size)] if size else []


class LookupClient:
    """The scheduler's side. One thread uses it."""

    def __init__(self, address: str, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._timeout_ms = int(timeout * 1000)
        self._clock = clock
        self._socket: Any = None
        self._number = 0
        self._waiting_since: float | None = None

    def __call__(self, hashes: Sequence[bytes]) -> int | None:
        """Leading blocks that are in the pool; None when nobody says so in time."""
        if self._waiting_since is not None and not self._reply_arrived(0):
            if self._clock() - self._waiting_since < _FORGET_AFTER:
                return None
            self.close()
        self._number += 1
        self._connected().send(encode_question(self._number, hashes))
        self._waiting_since = self._clock()
        answer = self._reply_arrived(self._timeout_ms)
        if answer is None:
            logger.warning("kvpool: no answer to a look-up within %d ms; treated as no hit", self._timeout_ms)
            return None
        known, blocks = answer
        return blocks if known else None

    def close(self) -> None:
        """Drop the connection; the next question makes a new one."""
        if self._socket is not None:
            self._socket.close(linger=0)
        self._socket, self._waiting_since = None, None

    def _connected(self) -> Any:
        if self._socket is None:
            self._socket = zmq.Context.instance().socket(zmq.DEALER)
            self._socket.connect(self._address)
        return self._socket

    def _reply_arrived(self, timeout_ms: int) -> tuple[bool, int] | None:
        """The reply to the last question, if it is there within the time."""
        deadline = self._clock() + timeout_ms / 1000
        while self._socket.poll(max(0, int((deadline - self._clock()) * 1000))):
            number, known, blocks = _REPLY.unpack(self._socket.recv())
            if number == self._number:
                self._waiting_since = None
                return bool(known), blocks
        return None


class LookupServer:
    """Rank 0's side, with a thread of its own."""

    def __init__(self, address: str, count_blocks: CountBlocks) -> None:
        self._address = address
        self._count_blocks = count_blocks
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="kvpool-lookup", daemon=True)
        self._socket: Any = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.bind(address)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._stopping.set()
        self._thread.join(2 * _POLL_MS / 1000)

    def _serve(self) -> None:
        with self._socket as socket:
            socket.setsockopt(zmq.LINGER, 0)
            while not self._stopping.is_set():
                if not socket.poll(_POLL_MS):
                    continue
                peer, frame = socket.recv_multipart()
                try:
                    number, hashes = decode_question(frame)
                    blocks = self._count_blocks(hashes)
                except Exception as error:
                    logger.warning("kvpool: a look-up failed: %s", error)
                    continue
                socket.send_multipart([peer, _REPLY.pack(number, blocks is not None, blocks or 0)])
