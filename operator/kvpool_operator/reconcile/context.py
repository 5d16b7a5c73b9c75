"""What reconcilers are given: the cluster, what the installation decides, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.plan.facts import Defaults


@dataclass(frozen=True, slots=True)
class Context:
    """The world of one operator process."""

    api: ClusterAPI
    defaults: Defaults
    watched: tuple[str, ...]
    """Watched namespaces; empty means all."""
    now: Callable[[], str]
    """The time, RFC 3339 in UTC."""


LOOK_AT_PODS_SECONDS = 10.0
"""How often a group that waits for pods is looked at."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one reconcile did, for logs and metrics."""

    generation: int | None
    written: tuple[str, ...] = ()
    stalled: str = ""
    requeue_after: float | None = None
    """Seconds until another look is due without any event: pods are not watched, and what they complain of changes."""
