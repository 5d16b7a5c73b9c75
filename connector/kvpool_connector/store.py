"""The store as the worker uses it: it never raises, and it never waits for a store known to be gone.

A keeper thread joins the store, watches for its return after an outage, and leaves it at the end. Joining can take
long, so it never happens on the request path.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from kvpool_connector.backends.base import Backend, Outcome, StoreUnavailable, Transfer
from kvpool_connector.breaker import Breaker
from kvpool_connector.segments import Region

logger = logging.getLogger("vllm.kvpool.store")

_IDLE_CHECK = 0.5
_CLOSE_LIMIT = 5.0


class StoreClient:
    """A back end behind a breaker."""

    def __init__(self, backend: Backend, regions: Sequence[Region], bind_thread: Callable[[], None]) -> None:
        self._backend = backend
        self._regions = regions
        self._bind_thread = bind_thread
        self._joined = False
        self._stopping = threading.Event()
        self._attached = threading.Event()
        self.breaker = Breaker()
        self._keeper = threading.Thread(target=self._keep, name="kvpool-keeper", daemon=True)

    def start(self, wait: float) -> bool:
        """Begin to join, and give it some seconds. False means that the engine goes on without the store for now."""
        self._keeper.start()
        return self._attached.wait(wait)

    def exists(self, keys: Sequence[str]) -> list[bool] | None:
        """Which of the keys can be read; None when the store cannot be asked."""
        if not keys or not self.breaker.closed:
            return [] if not keys else None
        try:
            return self._backend.exists(keys)
        except Exception as error:
            self._trip(error)
            return None

    def put(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Store objects."""
        return self._transfer(self._backend.put, transfers)

    def get(self, transfers: Sequence[Transfer]) -> list[Outcome]:
        """Fill memory from objects."""
        return self._transfer(self._backend.get, transfers)

    def give_up(self, reason: str) -> None:
        """Pass the store by until it answers again: somebody saw that it hangs."""
        self._trip(reason)

    def close(self) -> None:
        """Leave the store; bounded, since a store that is gone must not hold up the engine's end."""
        self._stopping.set()
        self.breaker.trip()
        leaving = threading.Thread(target=self._leave, name="kvpool-leave", daemon=True)
        leaving.start()
        leaving.join(_CLOSE_LIMIT)

    def _transfer(
        self, call: Callable[[Sequence[Transfer]], list[Outcome]], transfers: Sequence[Transfer]
    ) -> list[Outcome]:
        if not transfers or not self.breaker.closed:
            return [Outcome.UNREACHABLE] * len(transfers)
        try:
            outcomes = call(transfers)
        except Exception as error:
            self._trip(error)
            return [Outcome.UNREACHABLE] * len(transfers)
        if Outcome.UNREACHABLE in outcomes:
            self._trip("the store did not answer a transfer")
        elif Outcome.FAILED in outcomes:
            if self.breaker.strike():
                logger.warning("kvpool: transfers keep failing; the pool is passed by until the store answers again")
        else:
            self.breaker.succeed()
        return outcomes

    def _trip(self, reason: object) -> None:
        if self.breaker.trip():
            logger.warning("kvpool: the store is unavailable (%s); requests go on without it", reason)

    def _keep(self) -> None:
        self._bind_thread()
        while not self._stopping.is_set():
            pause = _IDLE_CHECK if self.breaker.closed else self.breaker.wait_before_probe()
            if pause > 0:
                self._stopping.wait(min(pause, _IDLE_CHECK))
                continue
            self._probe()

    def _probe(self) -> None:
        try:
            if not self._joined:
                self._backend.setup(self._regions)
                self._joined = True
            elif not self._backend.health():
                raise StoreUnavailable("it does not answer yet")
        except Exception as error:
            self.breaker.probe_failed()
            logger.warning(
                "kvpool: %s store: %s; next try in %.0f s", self._backend.name, error, self.breaker.wait_before_probe()
            )
            return
        self.breaker.close()
        self._attached.set()
        logger.info("kvpool: the %s store is available", self._backend.name)

    def _leave(self) -> None:
        try:
            self._bind_thread()
            self._backend.close()
        except Exception as error:
            logger.warning("kvpool: leaving the store failed: %s", error)
