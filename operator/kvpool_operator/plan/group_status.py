"""What to say of a group and of its roles, from what was seen, decided and done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvpool_operator.api.conditions import READY
from kvpool_operator.api.names import (
    COMPONENT_LABEL,
    GROUP_LABEL,
    ROLE_LABEL,
    engine_name,
    role_name,
    router_name,
)
from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.facts import Object, ObservedGroup
from kvpool_operator.plan.group import GroupDecision, RolePlan, is_complete
from kvpool_operator.plan.status import (
    Acted,
    Said,
    conflict,
    merge_conditions,
    summary_conditions,
    update_available,
)


def plan_group_status(
    observed: ObservedGroup,
    decision: GroupDecision,
    revisions: Mapping[str, str],
    acted: Acted,
    now: str,
) -> dict[str, Any]:
    """The whole status. With a violation the facts stay as they were: what runs goes on running."""
    meta = observed.group["metadata"]
    previous: Mapping[str, Any] = observed.group.get("status") or {}
    said = [*_summary(observed, decision, acted), conflict(acted.foreign), update_available(acted.outdated)]
    status: dict[str, Any] = {
        **previous,
        "observedGeneration": meta["generation"],
        "conditions": merge_conditions(previous.get("conditions") or [], said, meta["generation"], now),
    }
    if decision.violation:
        return status
    roles = [_role_status(observed, decision, role, revisions) for role in decision.roles]
    status["roles"] = roles
    status["summary"] = ", ".join(f"{role['name']} {role['ready']}/{role['desired']}" for role in roles)
    if decision.router:
        status["url"] = f"http://{router_name(meta['name'])}.{meta['namespace']}.svc:{decision.router.port}"
    else:
        status.pop("url", None)
    return status


def plan_role_status(observed: ObservedGroup, role: RolePlan) -> dict[str, Any]:
    """Status of an InferenceRole: what autoscalers read."""
    group = observed.group["metadata"]["name"]
    engines = _engines(observed, role.spec.name)
    return {
        "replicas": sum(_count(engine, "replicas") for engine in engines),
        "readyReplicas": sum(_count(engine, "readyReplicas") for engine in engines),
        "selector": f"{COMPONENT_LABEL}=engine,{GROUP_LABEL}={group},{ROLE_LABEL}={role.spec.name}",
    }


def _engines(observed: ObservedGroup, role: str) -> list[Object]:
    """All Deployments of a role, those of earlier pairing revisions among them."""
    return [
        child
        for (kind, _), child in observed.children.items()
        if kind == "Deployment" and (child["metadata"].get("labels") or {}).get(ROLE_LABEL) == role
    ]


def _count(workload: Object | None, field: str) -> int:
    return int(((workload or {}).get("status") or {}).get(field) or 0)


def _present(observed: ObservedGroup, decision: GroupDecision, role: RolePlan) -> Object | None:
    group = observed.group["metadata"]["name"]
    return observed.children.get(("Deployment", engine_name(group, role.spec.name, decision.pairing)))


def _role_status(
    observed: ObservedGroup, decision: GroupDecision, role: RolePlan, revisions: Mapping[str, str]
) -> dict[str, Any]:
    engine = _present(observed, decision, role)
    return {
        "name": role.spec.name,
        "desired": role.replicas,
        "ready": _count(engine, "readyReplicas"),
        "updated": _count(engine, "updatedReplicas"),
        "pairing": decision.pairing,
        "revision": revisions.get(role.spec.name, ""),
    }


def _summary(observed: ObservedGroup, decision: GroupDecision, acted: Acted) -> tuple[Said, ...]:
    violation = decision.violation or acted.violation()
    waiting = "" if violation else _waiting_for(observed, decision, acted)
    conditions = summary_conditions(violation, acted.paused, waiting, "every role and the router are ready")
    if not violation and not acted.paused and not waiting and any(role.replicas == 0 for role in decision.roles):
        empty = ", ".join(role.spec.name for role in decision.roles if role.replicas == 0)
        message = f"{empty} has no replicas; kubectl scale its InferenceRole to serve"
        return (Said(READY, "False", Reason.SCALED_TO_ZERO, message), *conditions[1:])
    return conditions


def _waiting_for(observed: ObservedGroup, decision: GroupDecision, acted: Acted) -> str:
    """What is not as it should be yet, in one line; empty when all is."""
    if acted.foreign:
        return "cannot write " + ", ".join(acted.foreign)
    parts = []
    for role in decision.roles:
        engine = _present(observed, decision, role)
        if engine is None or not is_complete(engine, role.replicas):
            trouble = observed.troubles.get(role.spec.name)
            ready = f"{role.spec.name} has {_count(engine, 'readyReplicas')} of {role.replicas} replicas ready"
            parts.append(f"{ready} ({trouble})" if trouble else ready)
        if observed.children.get(("InferenceRole", _role_object(observed, role))) is None:
            parts.append(f"the InferenceRole of {role.spec.name} is being created")
    if decision.router and not _router_ready(observed, decision):
        parts.append("the router is not ready")
    if decision.retained and not parts:
        parts.append("engines of the previous pairing revision are going")
    return "; ".join(parts)


def _role_object(observed: ObservedGroup, role: RolePlan) -> str:
    return role_name(observed.group["metadata"]["name"], role.spec.name)


def _router_ready(observed: ObservedGroup, decision: GroupDecision) -> bool:
    """All router pods of the present template; one is enough to serve, but a roll is not over before all are."""
    deployment = observed.children.get(("Deployment", router_name(observed.group["metadata"]["name"])))
    return bool(decision.router and deployment and is_complete(deployment, decision.router.replicas))
