"""What the connector counts. Both sides add here; vLLM collects the sums once a step."""

from __future__ import annotations

import threading

# Counter -> its description in Prometheus, where the name gets the prefix `kvpool:` and the suffix `_total`.
COUNTERS = {
    "lookups": "Look-ups of a request's prefix in the pool.",
    "lookup_tokens": "Tokens that were looked up in the pool, beyond what the engine had itself.",
    "hit_tokens": "Tokens found in the pool.",
    "lookups_unanswered": "Look-ups that missed their deadline or met an unavailable store; they count as no hit.",
    "loaded_blocks": "Blocks loaded from the pool.",
    "loaded_bytes": "Bytes loaded from the pool.",
    "load_failed_blocks": "Blocks that were found but could not be loaded; they are computed again.",
    "load_seconds": "Time spent loading.",
    "saved_blocks": "Blocks stored in the pool.",
    "saved_bytes": "Bytes stored in the pool.",
    "save_seconds": "Time spent storing.",
    "store_outages": "Times the store became unavailable.",
}
# Why a block was not stored: the values of the label `reason` of kvpool:dropped_blocks_total.
DROPPED = "dropped_blocks"
DROP_REASONS = ("store_unavailable", "store_full", "put_failed", "queue_full", "overwritten", "after_failed_load")
STORE_UP = "store_up"


class Counters:
    """Sums since they were last taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] = {}

    def add(self, name: str, value: float = 1) -> None:
        """Count."""
        if value:
            with self._lock:
                self._sums[name] = self._sums.get(name, 0) + value

    def drop(self, reason: str, blocks: int) -> None:
        """Count blocks that are not stored."""
        self.add(f"{DROPPED}.{reason}", blocks)

    def take(self) -> dict[str, float]:
        """The sums, which start again at nothing."""
        with self._lock:
            sums, self._sums = self._sums, {}
            return sums


def merge(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Two workers' or two intervals' sums together. The store counts as up if it is up for every rank."""
    merged = dict(one)
    for name, value in other.items():
        if name == STORE_UP:
            merged[name] = min(merged.get(name, value), value)
        else:
            merged[name] = merged.get(name, 0) + value
    return merged
