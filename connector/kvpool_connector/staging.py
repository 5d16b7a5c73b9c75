"""A copy of the blocks that are being stored, so that a slow store never holds up the engine.

Where the KV cache lies in host memory, copying a batch takes far less than sending it. Once copied, its blocks may be
overwritten. The buffer is registered with the store like the cache itself and is used for one batch at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kvpool_connector.backends.base import Transfer
from kvpool_connector.segments import Region

_LIMIT_BYTES = 32 << 20


class Staging:
    """Room for the blocks of one batch."""

    def __init__(self, block_bytes: int, most_blocks: int) -> None:
        self.blocks = max(1, min(most_blocks, _LIMIT_BYTES // block_bytes))
        self._block_bytes = block_bytes
        self._buffer = ctypes.create_string_buffer(self.blocks * block_bytes)
        self._base = ctypes.addressof(self._buffer)

    @property
    def region(self) -> Region:
        """The buffer, for registration."""
        return Region(self._base, self.blocks * self._block_bytes)

    def copy(self, transfers: Sequence[Transfer]) -> list[Transfer]:
        """The same objects, read from here."""
        staged = []
        for slot, transfer in enumerate(transfers):
            start = at = self._base + slot * self._block_bytes
            for address, size in zip(transfer.addresses, transfer.sizes, strict=True):
                ctypes.memmove(at, address, size)
                at += size
            staged.append(Transfer(transfer.key, [start], [at - start]))
        return staged
