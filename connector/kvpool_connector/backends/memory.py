"""A store in this process, for tests of one engine after another."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kvpool_connector.backends.base import Outcome, Transfer
from kvpool_connector.segments import Region

_OBJECTS: dict[str, bytes] = {}


def read_pieces(transfer: Transfer) -> bytes:
    """The bytes at a transfer's addresses."""
    return b"".join(ctypes.string_at(at, size) for at, size in zip(transfer.addresses, transfer.sizes, strict=True))


def write_pieces(transfer: Transfer, data: bytes) -> Outcome:
    """Spread an object over a transfer's addresses; one of another length is never used."""
    if len(data) != sum(transfer.sizes):
        return Outcome.FAILED
    start = 0
    for at, size in zip(transfer.addresses, transfer.sizes, strict=True):
        ctypes.memmove(at, data[start : start + size], size)
        start += size
    return Outcome.OK


class MemoryBackend:
    """Objects as bytes in a dictionary that all connectors of the process share."""

    name = "memory"

    def setup(self, regions: Sequence[Region]) -> None:
        """Nothing to join."""

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Which of the keys can be read."""
        return [key in _OBJECTS for key in keys]

    def put(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Store objects, first writer wins."""
        for transfer in transfers:
            _OBJECTS.setdefault(transfer.key, read_pieces(transfer))
        return [Outcome.OK] * len(transfers)

    def get(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Fill memory from objects."""
        return [
            Outcome.MISS if (data := _OBJECTS.get(transfer.key)) is None else write_pieces(transfer, data)
            for transfer in transfers
        ]

    def health(self) -> bool:
        """Always there."""
        return True

    def remove(self, keys: Sequence[str]) -> None:
        """Forget objects."""
        for key in keys:
            _OBJECTS.pop(key, None)

    def close(self) -> None:
        """Nothing to leave."""
