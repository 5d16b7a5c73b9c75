"""Decisions about a group: is it possible, what does each role run, how many, and which old engines stay for now.

Invariant `old_pairs_stay_until_new_ones_are_ready`: engines of an earlier pairing revision are kept, at their size,
until every role of the present revision is completely ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvpool_operator.api.group import InferenceGroupSpec, RoleSpec, RouterSpec
from kvpool_operator.api.names import GROUP_LABEL, PAIRING_LABEL, ROLE_LABEL, engine_name, role_name
from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.canonical import digest
from kvpool_operator.plan.checks import Violation, first_violation
from kvpool_operator.plan.engine import EnginePlan, plan_engine
from kvpool_operator.plan.facts import ChildKey, Defaults, Object, ObservedGroup
from kvpool_operator.plan.group_checks import GROUP_CHECKS, GroupFacts, transfer_of
from kvpool_operator.plan.inputs import Inputs, pairing_inputs, role_inputs, router_inputs
from kvpool_operator.plan.parse import parse_spec
from kvpool_operator.plan.pool import ResolvedPool, resolve_pool

ROUTER_PORT = 8000


@dataclass(frozen=True, slots=True)
class RolePlan:
    """One role: its engines, how many, and what its InferenceRole must say."""

    spec: RoleSpec
    replicas: int
    engine: EnginePlan
    inputs: Inputs
    digest: str


@dataclass(frozen=True, slots=True)
class RouterPlan:
    """The router's pods."""

    image: str
    image_pull_policy: str | None
    args: tuple[str, ...]
    resources: Mapping[str, Any]
    inputs: Inputs
    digest: str
    replicas: int
    port: int


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What to do about a group. With a violation nothing is written and running children stay as they are."""

    violation: Violation | None
    spec: InferenceGroupSpec | None = None
    pool: ResolvedPool | None = None
    pairing: str = ""
    roles: tuple[RolePlan, ...] = ()
    router: RouterPlan | None = None
    retained: frozenset[ChildKey] = frozenset()
    """Children of earlier pairing revisions that stay until the present one is ready."""


def plan_group(observed: ObservedGroup, defaults: Defaults) -> GroupDecision:
    """Decide what the group's children are; purely, from what was seen."""
    spec = parse_spec(InferenceGroupSpec, observed.group)
    if isinstance(spec, Violation):
        return GroupDecision(violation=spec)
    pool = _resolve_reference(observed, spec)
    if isinstance(pool, Violation):
        return GroupDecision(violation=pool, spec=spec)
    namespace = observed.group["metadata"]["namespace"]
    facts = GroupFacts(namespace, spec, pool, observed.namespace_labels)
    if violation := first_violation(GROUP_CHECKS, facts):
        return GroupDecision(violation=violation, spec=spec, pool=pool)
    assert observed.pool is not None
    pairing = digest(pairing_inputs(observed.group, observed.pool))
    roles = tuple(_plan_role(observed, spec, role, pool, defaults) for role in spec.roles)
    return GroupDecision(
        violation=None,
        spec=spec,
        pool=pool,
        pairing=pairing,
        roles=roles,
        router=_plan_router(observed, spec, pool, defaults),
        retained=_retained(observed, roles, pairing),
    )


def _resolve_reference(observed: ObservedGroup, spec: InferenceGroupSpec) -> ResolvedPool | Violation:
    reference = spec.pool_ref
    where = f"{reference.namespace or observed.group['metadata']['namespace']}/{reference.name}"
    if observed.pool is None:
        return Violation(Reason.POOL_NOT_FOUND, f"spec.poolRef: there is no KVPool {where}; create it or mend the name")
    resolved = resolve_pool(observed.pool)
    if isinstance(resolved, Violation):
        return Violation(Reason.POOL_STALLED, f"spec.poolRef: pool {where} cannot be used: {resolved.message}")
    return resolved


def _plan_role(
    observed: ObservedGroup, spec: InferenceGroupSpec, role: RoleSpec, pool: ResolvedPool, defaults: Defaults
) -> RolePlan:
    stored = next(each for each in observed.group["spec"]["roles"] if each["name"] == role.name)
    inputs = role_inputs(observed.group, stored, observed.pool or {})
    return RolePlan(
        spec=role,
        replicas=wanted_replicas(observed, role),
        engine=plan_engine(spec, role, pool, defaults),
        inputs=inputs,
        digest=digest(inputs),
    )


def wanted_replicas(observed: ObservedGroup, role: RoleSpec) -> int:
    """The group's number where it fixes one, else the InferenceRole's.

    An InferenceRole that was deleted starts again with what its engines still run, a new one with initialReplicas.
    """
    if role.replicas is not None:
        return role.replicas
    group = observed.group["metadata"]["name"]
    if existing := observed.children.get(("InferenceRole", role_name(group, role.name))):
        return int(existing["spec"]["replicas"])
    living = [
        int(child["spec"].get("replicas", 1))
        for (kind, _), child in observed.children.items()
        if kind == "Deployment" and child["metadata"]["labels"].get(ROLE_LABEL) == role.name
    ]
    if living:
        return max(living)
    return 1 if role.initial_replicas is None else role.initial_replicas


def _plan_router(
    observed: ObservedGroup, spec: InferenceGroupSpec, pool: ResolvedPool, defaults: Defaults
) -> RouterPlan | None:
    router = spec.router or RouterSpec()
    if (router.type or "KVPool") != "KVPool":
        return None
    meta = observed.group["metadata"]
    mixed = any(role.type == "Mixed" for role in spec.roles)
    timeout = 30 if router.queue_timeout_seconds is None else router.queue_timeout_seconds
    inputs = router_inputs(observed.group, observed.pool or {})
    return RouterPlan(
        image=router.image or defaults.router_image,
        image_pull_policy=defaults.image_pull_policy,
        args=(
            f"--namespace={meta['namespace']}",
            f"--group={meta['name']}",
            f"--model={spec.model.served_name}",
            f"--transfer={'Mixed' if mixed else transfer_of(spec, pool)}",
            f"--port={ROUTER_PORT}",
            f"--queue-timeout-seconds={timeout}",
        ),
        resources=router.resources.model_dump(by_alias=True, exclude_none=True) if router.resources else {},
        inputs=inputs,
        digest=digest(inputs),
        replicas=2 if router.replicas is None else router.replicas,
        port=router.port or ROUTER_PORT,
    )


def _retained(observed: ObservedGroup, roles: tuple[RolePlan, ...], pairing: str) -> frozenset[ChildKey]:
    """Engines of other pairing revisions, with their Services, while the present revision is not completely ready."""
    group = observed.group["metadata"]["name"]
    present = [observed.children.get(("Deployment", engine_name(group, role.spec.name, pairing))) for role in roles]
    if all(child is not None and is_complete(child, role.replicas) for child, role in zip(present, roles, strict=True)):
        return frozenset()
    return frozenset(
        key
        for key, child in observed.children.items()
        if key[0] in ("Deployment", "Service") and _other_pairing(child, pairing)
    )


def _other_pairing(child: Object, pairing: str) -> bool:
    labels = child["metadata"].get("labels") or {}
    return GROUP_LABEL in labels and labels.get(PAIRING_LABEL, pairing) != pairing


def is_complete(deployment: Object, replicas: int) -> bool:
    """Every wanted replica runs the present template and is ready."""
    status = deployment.get("status") or {}
    return bool(
        status.get("observedGeneration") == deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == replicas
        and status.get("readyReplicas", 0) == replicas
        and status.get("replicas", 0) == replicas
    )
