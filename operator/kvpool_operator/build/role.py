"""The InferenceRole of one role, as it is created."""

from __future__ import annotations

from typing import Any

from kvpool_operator.api import API_VERSION
from kvpool_operator.api.names import ROLE_LABEL, ROLE_TYPE_LABEL, role_name
from kvpool_operator.build.meta import Owner, owned
from kvpool_operator.plan.group import RolePlan
from kvpool_operator.plan.roles import role_spec


def build_role(owner: Owner, role: RolePlan) -> dict[str, Any]:
    """A new InferenceRole."""
    return owned(
        owner,
        API_VERSION,
        "InferenceRole",
        role_name(owner.name, role.spec.name),
        "role",
        {"spec": role_spec(role)},
        labels={ROLE_LABEL: role.spec.name, ROLE_TYPE_LABEL: role.spec.type},
    )
