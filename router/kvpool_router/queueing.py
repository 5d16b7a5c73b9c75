"""The bounded queue of requests that wait until an attempt to be placed succeeds.

Promises: first come, first served; a retry goes before newcomers; never more than `limit` newcomers wait; a waiter that
is cancelled or times out holds nothing; a grant that meets a cancelled waiter is released, so no seat leaks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Releasable(Protocol):
    """A grant that can be given back."""

    def release(self) -> None:
        """Give the grant back; harmless when repeated."""


G = TypeVar("G", bound=Releasable)


class QueueFull(Exception):
    """No room for another waiter."""


class QueueTimeout(Exception):
    """The wait was as long as it may be."""


class _Waiter(Generic[G]):
    __slots__ = ("attempt", "grant")

    def __init__(self, attempt: Callable[[], G | None], grant: asyncio.Future[G]) -> None:
        self.attempt = attempt
        self.grant = grant


class WaitingRoom(Generic[G]):
    """Waiters, and `wake` for whoever changes what their attempts depend on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._newcomers: deque[_Waiter[G]] = deque()
        self._retries: deque[_Waiter[G]] = deque()

    def __len__(self) -> int:
        return len(self._newcomers) + len(self._retries)

    async def enter(self, attempt: Callable[[], G | None], *, patience: float, retry: bool = False) -> G:
        """Place a request at once where nobody is ahead of it, else wait; QueueFull or QueueTimeout otherwise."""
        if retry or not self._newcomers:
            grant = attempt()
            if grant is not None:
                return grant
        if patience <= 0:
            raise QueueTimeout
        if not retry and len(self._newcomers) >= self._limit:
            raise QueueFull
        line = self._retries if retry else self._newcomers
        future: asyncio.Future[G] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(attempt, future)
        line.append(waiter)
        try:
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError:
            if future.done() and not future.cancelled():
                return future.result()
            raise QueueTimeout from None
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().release()
            raise
        finally:
            if waiter in line:
                line.remove(waiter)

    def wake(self) -> None:
        """Try the waiters again: every retry, and newcomers until the first that cannot be placed."""
        for waiter in list(self._retries):
            if self._place(waiter):
                self._retries.remove(waiter)
        while self._newcomers and self._place(self._newcomers[0]):
            self._newcomers.popleft()

    @staticmethod
    def _place(waiter: _Waiter[G]) -> bool:
        """Whether the waiter is done with: placed now, or gone before."""
        if waiter.grant.done():
            return True
        grant = waiter.attempt()
        if grant is None:
            return False
        waiter.grant.set_result(grant)
        return True
