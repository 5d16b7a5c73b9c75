"""All children of a group: pinned templates first, then Services, workloads and the router."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvpool_operator.api.group import RolloutSpec
from kvpool_operator.api.names import GROUP_LABEL, ROLE_LABEL
from kvpool_operator.build.engine import build_engine_deployment, build_engine_service, render_engine_template
from kvpool_operator.build.meta import Owner
from kvpool_operator.build.revision import Pinned, pin_template
from kvpool_operator.build.role import build_role
from kvpool_operator.build.router import COMPONENT as ROUTER
from kvpool_operator.build.router import build_router, render_router_template
from kvpool_operator.plan.facts import ObservedGroup
from kvpool_operator.plan.group import GroupDecision, RolePlan


@dataclass(frozen=True, slots=True)
class BuiltGroup:
    """All children, in the order in which they are written, and which of them a new operator would render anew."""

    roles: tuple[dict[str, Any], ...]
    """One InferenceRole for each role of the decision, as it would be created."""
    children: tuple[dict[str, Any], ...]
    outdated: tuple[str, ...]
    revisions: tuple[tuple[str, str], ...]
    """By role: the name of the ControllerRevision in force."""


def build_group(observed: ObservedGroup, decision: GroupDecision) -> BuiltGroup:
    """The objects of a group whose spec is valid."""
    owner = Owner.of("InferenceGroup", observed.group, GROUP_LABEL)
    pins = [(role, _pin_role(owner, observed, decision, role)) for role in decision.roles]
    rolling = _rolling(decision)
    children: list[dict[str, Any]] = [pinned.revision for _, pinned in pins]
    children += [build_engine_service(owner, role, decision.pairing) for role, _ in pins]
    children += [
        build_engine_deployment(owner, role, decision.pairing, pinned.template, rolling) for role, pinned in pins
    ]
    outdated = [role.spec.name for role, pinned in pins if pinned.outdated]
    if decision.router:
        rendered = render_router_template(owner, decision.router)
        pinned = pin_template(
            owner, ROUTER, decision.router.digest, decision.router.inputs, rendered, observed.children
        )
        children += [pinned.revision, *build_router(owner, decision.router, pinned.template)]
        outdated += [ROUTER] if pinned.outdated else []
    return BuiltGroup(
        roles=tuple(build_role(owner, role) for role in decision.roles),
        children=tuple(children),
        outdated=tuple(outdated),
        revisions=tuple((role.spec.name, pinned.name) for role, pinned in pins),
    )


def _pin_role(owner: Owner, observed: ObservedGroup, decision: GroupDecision, role: RolePlan) -> Pinned:
    if decision.pool is None:
        raise ValueError("a group with a violation has nothing to build")
    rendered = render_engine_template(owner, role, decision.pairing, decision.pool.hardware)
    labelled = owner.with_labels({ROLE_LABEL: role.spec.name})
    return pin_template(labelled, role.spec.name, role.digest, role.inputs, rendered, observed.children)


def _rolling(decision: GroupDecision) -> dict[str, int]:
    """Roll one by one in place, since NPUs for a surge are rarely free; both at 0 would roll nothing."""
    rollout = (decision.spec and decision.spec.rollout) or RolloutSpec()
    surge = rollout.max_surge or 0
    unavailable = rollout.max_unavailable if rollout.max_unavailable is not None else (0 if surge else 1)
    return {"maxUnavailable": unavailable if unavailable or surge else 1, "maxSurge": surge}
