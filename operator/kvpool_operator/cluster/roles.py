"""Writing InferenceRoles: created like any child, changed by merge patch, since their replicas belong to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.cluster.converge import Outcome, child_key, create_child
from kvpool_operator.cluster.errors import ConflictError, NotFoundError, ObserveAgainError
from kvpool_operator.plan.facts import ChildKey, Object, is_owned_by
from kvpool_operator.plan.group import RolePlan
from kvpool_operator.plan.roles import plan_role_patch


async def converge_roles(
    api: ClusterAPI,
    owner_uid: str,
    roles: Iterable[tuple[RolePlan, Object]],
    observed: Mapping[ChildKey, Object],
    outcome: Outcome,
) -> None:
    """Make each InferenceRole exist and say who decides its replicas."""
    for role, desired in roles:
        kind, name = child_key(desired)
        existing = observed.get((kind, name))
        if existing is None:
            await create_child(api, owner_uid, desired, outcome)
        elif not is_owned_by(existing, owner_uid):
            outcome.foreign.append(f"{kind} {name}")
        elif patch := plan_role_patch(role, existing):
            try:
                await api.merge_patch(kind, existing["metadata"]["namespace"], name, patch)
            except (ConflictError, NotFoundError) as error:
                raise ObserveAgainError(f"{kind} {name}: {error}") from error
            outcome.written.append(f"patch {kind} {name}")
