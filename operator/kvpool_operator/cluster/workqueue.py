"""A keyed work queue. What it promises, each with a test of that name:

- a key that is added many times before it is taken is worked on once;
- a key that is added while it is worked on is worked on once more afterwards;
- one key is never in two workers' hands;
- a key that fails comes back after its own growing delay, and other keys do not wait for it;
- of several delays for one key the shortest counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Dedupes, serialises by key, backs off by key. All methods belong to one event loop."""

    def __init__(
        self,
        *,
        base_delay: float = 0.05,
        max_delay: float = 60.0,
        on_wait: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        """Delays in seconds; `on_wait` hears how long each key waited for a worker."""
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._on_wait = on_wait
        self._ready: deque[Key] = deque()
        self._queued_at: dict[Key, float] = {}
        self._active: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._wakeup = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker now."""
        return len(self._ready)

    def add(self, key: Key) -> None:
        """Have the key worked on as soon as a worker is free."""
        self._cancel_timer(key)
        if key in self._active:
            self._again.add(key)
        elif key not in self._queued_at:
            self._queued_at[key] = asyncio.get_running_loop().time()
            self._ready.append(key)
            self._wakeup.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have the key worked on after a delay, unless it is due earlier anyway."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if key in self._queued_at or (timer and timer.when() <= loop.time() + seconds):
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def retry(self, key: Key) -> float:
        """Have a failed key worked on again later; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._base_delay * 2.0**failures, self._max_delay)
        self.add_after(key, delay)
        return delay

    def forget(self, key: Key) -> None:
        """The key succeeded: its next failure starts with the shortest delay again."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """Take the next key; give it back with done(). Raises CancelledError once the queue is closed."""
        while not self._ready:
            if self._closed:
                raise asyncio.CancelledError
            self._wakeup.clear()
            await self._wakeup.wait()
        key = self._ready.popleft()
        self._on_wait(asyncio.get_running_loop().time() - self._queued_at.pop(key))
        self._active.add(key)
        return key

    def done(self, key: Key) -> None:
        """The worker is through with the key."""
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Let every waiting worker go and forget all delays."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        self._wakeup.set()

    def _cancel_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
