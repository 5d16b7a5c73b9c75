"""Prometheus metrics of one router.

Counters and histograms carry no target name, so no series outlives a pod; what is known per target is read from the
live state at each scrape and vanishes with it.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from kvpool_router.balance import Standing
from kvpool_router.pool import TargetPool

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_PROMPT_TOKENS = re.compile(rb'"prompt_tokens"\s*:\s*(\d+)')
_CACHED_TOKENS = re.compile(rb'"cached_tokens"\s*:\s*(\d+)')


class Metrics:
    """All metrics, in a registry of their own."""

    def __init__(self, pool: TargetPool) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter(
            "kvpool_router_requests", "Finished requests.", ["path", "code", "outcome"], registry=registry
        )
        self.seconds = Histogram(
            "kvpool_router_request_seconds",
            "Seconds a request spent: queue, prefill, first_byte (from arrival), total.",
            ["phase"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.retries = Counter("kvpool_router_retries", "Repeated legs.", ["leg", "reason"], registry=registry)
        self.alone = Counter(
            "kvpool_router_decode_alone",
            "Requests that decode computed without prefill.",
            ["reason"],
            registry=registry,
        )
        self.broken = Counter(
            "kvpool_router_broken_streams", "Answers an engine broke off after the first byte.", registry=registry
        )
        self.in_flight = Gauge("kvpool_router_in_flight", "Requests being served or waiting.", registry=registry)
        self.prompt_tokens = Counter(
            "kvpool_router_prompt_tokens", "Prompt tokens, as engines report them.", ["leg"], registry=registry
        )
        self.cached_tokens = Counter(
            "kvpool_router_cached_tokens",
            "Prompt tokens taken from a cache or the pool, as engines report them (--enable-prompt-tokens-details).",
            ["leg"],
            registry=registry,
        )
        self.relists = Counter(
            "kvpool_router_discovery_relists", "Lists of EndpointSlices, by cause.", ["reason"], registry=registry
        )
        self.discovery_connected = Gauge(
            "kvpool_router_discovery_connected", "1 while the source of targets can be read.", registry=registry
        )
        registry.register(_PoolCollector(pool))
        self._requests: dict[tuple[str, int, str], Counter] = {}
        self._phases = {phase: self.seconds.labels(phase) for phase in ("queue", "prefill", "first_byte", "total")}
        self._prompt = {leg: self.prompt_tokens.labels(leg) for leg in ("prefill", "decode")}
        self._cached = {leg: self.cached_tokens.labels(leg) for leg in ("prefill", "decode")}

    def finished(self, path: str, status: int, outcome: str, seconds: Mapping[str, float]) -> None:
        """Count one request; looking label values up anew each time would cost more than counting."""
        key = (path, status, outcome)
        counter = self._requests.get(key)
        if counter is None:
            counter = self._requests[key] = self.requests.labels(path, str(status), outcome)
        counter.inc()
        for phase, value in seconds.items():
            self._phases[phase].observe(value)

    def usage(self, leg: str, tail: bytes) -> None:
        """Count the tokens that an answer's `usage` reports; `tail` is the end of the answer, where it stands."""
        if prompt := _PROMPT_TOKENS.findall(tail):
            self._prompt[leg].inc(int(prompt[-1]))
        if cached := _CACHED_TOKENS.findall(tail):
            self._cached[leg].inc(int(cached[-1]))

    def render(self) -> bytes:
        """The text exposition."""
        return generate_latest(self.registry)


class _PoolCollector(Collector):
    """The live state of the targets."""

    def __init__(self, pool: TargetPool) -> None:
        self._pool = pool

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        targets = self._pool.targets
        counts = Tally((t.role_type.value, t.standing.name.capitalize()) for t in targets)
        by_state = GaugeMetricFamily("kvpool_router_targets", "Targets by state.", labels=["role_type", "state"])
        for role_type in sorted({t.role_type.value for t in targets}):
            for standing in Standing:
                state = standing.name.capitalize()
                by_state.add_metric([role_type, state], counts[role_type, state])
        yield by_state
        labels = ["role_type", "pod", "port"]
        legs = GaugeMetricFamily("kvpool_router_target_legs", "Legs running on a target.", labels=labels)
        for target in targets:
            endpoint = target.endpoint
            legs.add_metric([endpoint.role_type.value, endpoint.pod, str(endpoint.port)], len(target.leases))
        yield legs
        yield GaugeMetricFamily("kvpool_router_queued", "Requests waiting for a pair.", value=len(self._pool.room))
        yield GaugeMetricFamily("kvpool_router_ready", "1 while /readyz says so.", value=float(self._pool.ready()))
        ejections = CounterMetricFamily(
            "kvpool_router_ejections", "Times a target was set aside, by reason.", labels=["reason"]
        )
        for reason, count in self._pool.ejections.items():
            ejections.add_metric([reason], count)
        yield ejections
