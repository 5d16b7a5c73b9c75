"""Storing blocks beside the engine's steps.

Blocks are read from the KV cache when their turn comes, so the engine must not overwrite a block that still waits.
Before each step it names the blocks that are handed out anew: those that wait are given up, and the one batch that is
being read is waited for. Who stores a batch may release its blocks as soon as it has read them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from kvpool_connector.device.base import Event

logger = logging.getLogger("vllm.kvpool.saver")

BATCH_BLOCKS = 32


@dataclass
class Batch:
    """Some blocks of one request, ready to be read once the event is over."""

    hashes: list[bytes]
    blocks: list[int]
    event: Event


class Saver:
    """A bounded queue of batches and the thread that stores them."""

    def __init__(
        self,
        store: Callable[[Batch, Callable[[], None]], None],
        drop: Callable[[str, int], None],
        max_blocks: int,
        batch_blocks: int = BATCH_BLOCKS,
        start: bool = True,
    ) -> None:
        self._store = store
        self._drop = drop
        self._max_blocks = max_blocks
        self._batch_blocks = batch_blocks
        self._finished = 0
        self._waiting: deque[Batch] = deque()
        self._waiting_blocks = 0
        self._current: Batch | None = None
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="kvpool-saver", daemon=True)
        if start:
            self._thread.start()

    def submit(self, hashes: Sequence[bytes], blocks: Sequence[int], event: Event) -> None:
        """Queue blocks; what does not fit is dropped and counted."""
        with self._changed:
            room = max(0, self._max_blocks - self._waiting_blocks)
            self._drop("queue_full", max(0, len(blocks) - room))
            for at in range(0, min(room, len(blocks)), self._batch_blocks):
                end = min(at + self._batch_blocks, room, len(blocks))
                self._waiting.append(Batch(list(hashes[at:end]), list(blocks[at:end]), event))
                self._waiting_blocks += end - at
            self._changed.notify_all()

    def fence(self, reused: Collection[int]) -> None:
        """Return when none of these blocks will be read any more."""
        with self._changed:
            if not self._waiting and self._current is None:
                return
            wanted = set(reused)
            for batch in self._waiting:
                self._give_up(batch, wanted)
            while self._current is not None and not wanted.isdisjoint(self._current.blocks):
                self._changed.wait()

    def drain(self, timeout: float) -> bool:
        """Wait until everything queued is stored or dropped. False if for so long not one batch was."""
        with self._changed:
            while self._waiting or self._current is not None:
                finished = self._finished
                if not self._changed.wait_for(lambda: self._finished > finished, timeout):  # noqa: B023
                    return False
            return True

    def close(self, timeout: float) -> None:
        """Store what is queued if that is quick, drop the rest, and end the thread."""
        self.drain(timeout)
        with self._changed:
            self._stopping = True
            self._drop("store_unavailable", self._waiting_blocks)
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _give_up(self, batch: Batch, reused: set[int]) -> None:
        kept = [(h, b) for h, b in zip(batch.hashes, batch.blocks, strict=True) if b not in reused]
        lost = len(batch.blocks) - len(kept)
        if lost:
            batch.hashes, batch.blocks = [h for h, _ in kept], [b for _, b in kept]
            self._waiting_blocks -= lost
            self._drop("overwritten", lost)

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            try:
                if batch.blocks:
                    self._store(batch, self._release)
            except Exception:
                logger.exception("kvpool: storing blocks failed")
            finally:
                with self._changed:
                    self._current = None
                    self._finished += 1
                    self._changed.notify_all()

    def _release(self) -> None:
        """The current batch has been read: its blocks may be overwritten."""
        with self._changed:
            if self._current is not None:
                self._current.blocks = []
                self._changed.notify_all()

    def _next(self) -> Batch | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            if not self._waiting:
                return None
            self._current = self._waiting.popleft()
            self._waiting_blocks -= len(self._current.blocks)
            return self._current
