"""When not to ask a store that does not answer.

A call to a dead Mooncake master takes 4.3 s. One such call is enough: after it the breaker is open, every request
passes the store by, and somebody off the request path asks from time to time whether the store is back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
STRIKES = 3
# An outage so soon after the last one doubles the pause; a longer quiet time starts again at the first.
_QUIET = 60.0


class Breaker:
    """Closed: ask. Open: do not ask, until a probe that succeeds closes it. Starts open."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False
        self._strikes = 0
        self._pause = 0.0
        self._changed = clock()
        self.outages = 0

    @property
    def closed(self) -> bool:
        """Whether requests may ask the store."""
        return self._closed

    def trip(self) -> bool:
        """Open: the store is unreachable. True if it was closed before."""
        with self._lock:
            was_closed, self._closed = self._closed, False
            if was_closed:
                again = self._clock() - self._changed < _QUIET and self._pause > 0
                self._pause = min(self._pause * 2, LONGEST_PAUSE) if again else FIRST_PAUSE
                self._changed = self._clock()
                self.outages += 1
            return was_closed

    def strike(self) -> bool:
        """A transfer failed though the store answered: some in a row open as well. True if this one opened."""
        with self._lock:
            self._strikes += 1
            if self._strikes < STRIKES:
                return False
            self._strikes = 0
        return self.trip()

    def succeed(self) -> None:
        """A transfer worked."""
        self._strikes = 0

    def close(self) -> None:
        """The store is there."""
        with self._lock:
            self._strikes = 0
            if not self._closed:
                self._closed = True
                self._changed = self._clock()

    def wait_before_probe(self) -> float:
        """Seconds until the store should be asked again; 0 when the time has come."""
        with self._lock:
            return max(0.0, self._changed + self._pause - self._clock())

    def probe_failed(self) -> None:
        """Still not there: wait longer."""
        with self._lock:
            self._pause = min(max(self._pause, FIRST_PAUSE / 2) * 2, LONGEST_PAUSE)
            self._changed = self._clock()
