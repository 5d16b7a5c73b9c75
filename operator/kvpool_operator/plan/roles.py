"""InferenceRoles: who decides the number of replicas.

With `replicas` in the group the operator writes that number and says so in `groupReplicas`, which makes the API server
refuse any other through `/scale`. Without it the InferenceRole's own number is the truth and is never written.
"""

from __future__ import annotations

from typing import Any

from kvpool_operator.plan.facts import Object
from kvpool_operator.plan.group import RolePlan


def role_spec(role: RolePlan) -> dict[str, Any]:
    """Spec of a new InferenceRole."""
    if role.spec.replicas is None:
        return {"replicas": role.replicas}
    return {"replicas": role.spec.replicas, "groupReplicas": role.spec.replicas}


def plan_role_patch(role: RolePlan, existing: Object) -> dict[str, Any] | None:
    """Merge patch that an existing InferenceRole needs; None when it needs nothing.

    A merge patch and never an apply: an apply that stops naming `replicas` would drop it to the default.
    """
    spec = existing["spec"]
    fixed = role.spec.replicas
    if fixed is None:
        change: dict[str, Any] = {"groupReplicas": None} if "groupReplicas" in spec else {}
    elif (spec.get("replicas"), spec.get("groupReplicas")) != (fixed, fixed):
        change = {"replicas": fixed, "groupReplicas": fixed}
    else:
        change = {}
    if not change:
        return None
    return {"metadata": {"resourceVersion": existing["metadata"]["resourceVersion"]}, "spec": change}
