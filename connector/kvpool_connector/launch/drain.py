"""The engine's preStop: let what it works on finish.

A stopping pod leaves the EndpointSlices at once, but routers hear of it a moment later, so an idle engine is not
finished before it has been idle for a while.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable

BUSY_METRICS = ("vllm:num_requests_running", "vllm:num_requests_waiting")
QUIET_SECONDS = 3.0
_POLL_SECONDS = 0.5


def drain(
    port: int,
    seconds: float,
    say: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the engine has been idle for QUIET_SECONDS, is gone, or `seconds` have passed."""
    deadline = clock() + seconds
    idle_since: float | None = None
    while clock() < deadline:
        busy = _requests(port)
        if busy is None:
            say("drain: the engine does not answer; nothing to wait for")
            return
        if busy:
            idle_since = None
        elif idle_since is None:
            idle_since = clock()
        elif clock() - idle_since >= QUIET_SECONDS:
            say("drain: the engine is idle")
            return
        pause(_POLL_SECONDS)
    say(f"drain: requests are left after {seconds:g} s")


def _requests(port: int) -> float | None:
    """Requests that run or wait, by the engine's own metrics; None when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            page = answer.read().decode()
    except (urllib.error.URLError, OSError):
        return None
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(BUSY_METRICS))
