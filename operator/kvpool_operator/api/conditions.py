"""Conditions in the shape of metav1.Condition, and the few types kvpool uses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kvpool_operator.api.base import Model, list_map

READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
CONFLICT = "Conflict"
UPDATE_AVAILABLE = "UpdateAvailable"

Status = Literal["True", "False", "Unknown"]


class Condition(Model):
    """One aspect of an object's state."""

    type: Annotated[str, Field(max_length=316)]
    """Which aspect."""
    status: Status
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=1024)]
    """One word from docs/reasons.md."""
    message: Annotated[str, Field(max_length=32768)]
    """What it means here and what to do."""
    observed_generation: int | None = None
    """The generation this was said of."""
    last_transition_time: str
    """When the status last changed, RFC 3339."""


ConditionList = Annotated[list[Condition], Field(json_schema_extra=list_map("type"), max_length=16)]
