"""InferenceRole: one role's `/scale`. The operator makes it; people and autoscalers set its replicas."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from kvpool_operator.api.base import STRUCTURAL_DEFAULT, FreeObject, Model, Rule, rules


class InferenceRoleSpec(Model):
    """How many replicas the role has, and who decides."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                "!has(self.groupReplicas) || self.replicas == self.groupReplicas",
                "the InferenceGroup fixes this role's replicas: change spec.roles[].replicas there, "
                "or remove it there to scale here",
                ".replicas",
            )
        ),
    )

    replicas: Annotated[int, Field(ge=0, le=1000, json_schema_extra=STRUCTURAL_DEFAULT)] = 1
    """Replicas wanted."""
    group_replicas: Annotated[int | None, Field(ge=0, le=1000)] = None
    """Set by the operator where the group fixes the number."""


class InferenceRoleStatus(Model):
    """What the operator found."""

    replicas: int | None = None
    """Replicas that exist."""
    ready_replicas: int | None = None
    """Replicas that are ready."""
    selector: str | None = None
    """Selector of the role's pods, for autoscalers."""


class InferenceRole(Model):
    """The scale of one role of an InferenceGroup."""

    metadata: FreeObject = Field(default_factory=dict)
    spec: InferenceRoleSpec
    status: InferenceRoleStatus | None = None
