"""What to say of a pool, from what was seen, decided and done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvpool_operator.api.names import master_name, master_ordinal_name
from kvpool_operator.plan.facts import ObservedPool
from kvpool_operator.plan.pool import MASTER_ADMIN_PORT, PoolDecision
from kvpool_operator.plan.status import (
    Acted,
    Said,
    conflict,
    merge_conditions,
    summary_conditions,
    update_available,
)


def plan_pool_status(observed: ObservedPool, decision: PoolDecision, acted: Acted, now: str) -> dict[str, Any]:
    """The whole status. Facts about children come from the last look, so a new pool is first said to progress.

    With a violation the facts stay as they were: what runs goes on running.
    """
    meta = observed.pool["metadata"]
    previous: Mapping[str, Any] = observed.pool.get("status") or {}
    stateful_set = observed.children.get(("StatefulSet", master_name(meta["name"])))
    said = [*_summary(decision, stateful_set, acted), conflict(acted.foreign), update_available(acted.outdated)]
    status: dict[str, Any] = {
        **previous,
        "observedGeneration": meta["generation"],
        "conditions": merge_conditions(previous.get("conditions") or [], said, meta["generation"], now),
    }
    status["consumers"] = list(observed.consumers)
    if decision.resolved:
        host = f"{master_ordinal_name(meta['name'], 0)}.{meta['namespace']}.svc"
        status |= {
            "endpoints": {
                "master": decision.resolved.contract.master,
                "admin": f"http://{host}:{MASTER_ADMIN_PORT}",
            },
            "release": decision.resolved.release.version,
            "members": f"{_ready(stateful_set)}/1",
        }
    return status


def _ready(workload: Mapping[str, Any] | None) -> int:
    return int(((workload or {}).get("status") or {}).get("readyReplicas") or 0)


def _is_current(workload: Mapping[str, Any]) -> bool:
    """The controller has seen the newest spec, and every pod runs it."""
    status = workload.get("status") or {}
    return bool(
        status.get("observedGeneration") == workload["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == workload["spec"]["replicas"]
    )


def _summary(decision: PoolDecision, stateful_set: Mapping[str, Any] | None, acted: Acted) -> tuple[Said, ...]:
    waiting = ""
    if acted.foreign:
        waiting = "cannot write " + ", ".join(acted.foreign)
    elif stateful_set is None:
        waiting = "the master is being created"
    elif not _is_current(stateful_set):
        waiting = "the master is being replaced"
    elif _ready(stateful_set) < 1:
        waiting = "the master is not ready"
    return summary_conditions(decision.violation or acted.violation(), acted.paused, waiting, "the master answers")
