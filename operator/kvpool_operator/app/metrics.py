"""The operator's metrics, named as controller authors expect."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """All metrics of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconciles = Counter(
            "kvpool_reconcile_total", "Reconciles by result.", ["kind", "result"], registry=self.registry
        )
        self.seconds = Histogram(
            "kvpool_reconcile_seconds",
            "Duration of a reconcile.",
            ["kind"],
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=self.registry,
        )
        self.writes = Counter(
            "kvpool_child_writes_total", "Writes to children and status.", ["kind"], registry=self.registry
        )
        self.queue_depth = Gauge("kvpool_queue_depth", "Objects that wait for a worker.", registry=self.registry)
        self.queue_seconds = Histogram(
            "kvpool_queue_seconds",
            "How long an object waited for a worker.",
            buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
            registry=self.registry,
        )
        self.requests = Counter(
            "kvpool_api_requests_total",
            "Requests to the API server; code 0 means no answer.",
            ["verb", "kind", "code"],
            registry=self.registry,
        )
        self.leader = Gauge("kvpool_leader", "1 in the process that acts.", registry=self.registry)
        self.stalled = Gauge(
            "kvpool_object_stalled",
            "1 for an object with an invalid spec.",
            ["kind", "namespace", "name"],
            registry=self.registry,
        )

    def count_request(self, verb: str, kind: str, status: int) -> None:
        """The client's hook."""
        self.requests.labels(verb, kind, str(status)).inc()

    def forget_object(self, kind: str, namespace: str, name: str) -> None:
        """A deleted object leaves no series behind."""
        try:
            self.stalled.remove(kind, namespace, name)
        except KeyError:
            return
