"""The counters as vLLM's own connector statistics: its log line, and Prometheus metrics on the engine's /metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client import REGISTRY
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

from kvpool_connector.counters import COUNTERS, DROP_REASONS, DROPPED, STORE_UP, merge


class KVPoolStats(KVConnectorStats):  # type: ignore[misc]
    """Sums of one step or interval."""

    def reset(self) -> None:
        """Forget the sums."""
        self.data: dict[str, float] = {}

    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not self.data

    def aggregate(self, other: KVConnectorStats) -> KVPoolStats:
        """Both together."""
        self.data = merge(self.data, other.data)
        return self

    def reduce(self) -> dict[str, int | float]:
        """What the log line shows."""
        return {name: round(value, 3) for name, value in sorted(self.data.items())}


class KVPoolPromMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """kvpool:* metrics, labelled as vLLM labels its own."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: dict[type[Any], type[Any]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        engines = per_engine_labelvalues.items()
        _unregister([*COUNTERS, DROPPED, STORE_UP])
        self._counters: dict[str, dict[int, Any]] = {}
        for name, text in COUNTERS.items():
            metric = self._counter_cls(name=f"kvpool:{name}", documentation=text, labelnames=labelnames)
            self._counters[name] = {index: metric.labels(*values) for index, values in engines}
        dropped = self._counter_cls(
            name=f"kvpool:{DROPPED}", documentation="Blocks that were not stored.", labelnames=[*labelnames, "reason"]
        )
        for reason in DROP_REASONS:
            by_engine = {index: dropped.labels(*values, reason) for index, values in engines}
            self._counters[f"{DROPPED}.{reason}"] = by_engine
        up = self._gauge_cls(
            name=f"kvpool:{STORE_UP}",
            documentation="Whether the store answered when the engine last worked.",
            labelnames=labelnames,
        )
        self._up = {index: up.labels(*values) for index, values in engines}

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add one step's sums."""
        for name, value in transfer_stats_data.items():
            if name == STORE_UP:
                self._up[engine_idx].set(value)
            elif name in self._counters:
                self._counters[name][engine_idx].inc(value)


def _unregister(names: Iterable[str]) -> None:
    """Forget the metrics of an engine that ran in this process before, as vLLM does with its own."""
    for name in names:
        collector = REGISTRY._names_to_collectors.get(f"kvpool:{name}")
        if collector is not None:
            REGISTRY.unregister(collector)
