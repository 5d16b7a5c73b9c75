"""Conditions over time: a transition time moves only when the status does, so a converged object is never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvpool_operator.api.conditions import CONFLICT, READY, RECONCILING, STALLED, UPDATE_AVAILABLE, Status
from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.checks import Violation


@dataclass(frozen=True, slots=True)
class Said:
    """One condition, before it gets its times."""

    type: str
    status: Status
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of writing the children."""

    foreign: tuple[str, ...] = ()
    """Children whose name somebody else's object has."""
    refused: str = ""
    """The API server's words, where it refused a child."""
    outdated: tuple[str, ...] = ()
    """Roll units that this operator version would render differently."""
    paused: bool = False

    def violation(self) -> Violation | None:
        """A refusal stalls the object like a broken rule: the spec must change."""
        if not self.refused:
            return None
        return Violation(Reason.INVALID_SPEC, f"the API server refuses {self.refused}")


def conflict(foreign: Sequence[str]) -> Said:
    """Whether somebody else's object is in the way."""
    if not foreign:
        return Said(CONFLICT, "False", Reason.AS_DESIRED, "")
    return Said(
        CONFLICT,
        "True",
        Reason.FOREIGN_OBJECT,
        f"{', '.join(foreign)} exists and belongs to someone else; remove or rename it, or rename this object",
    )


def update_available(outdated: Sequence[str]) -> Said:
    """Whether a newer rendering waits to be applied."""
    if not outdated:
        return Said(UPDATE_AVAILABLE, "False", Reason.AS_DESIRED, "")
    return Said(
        UPDATE_AVAILABLE,
        "True",
        Reason.RENDERING_CHANGED,
        f"this operator version renders {', '.join(outdated)} differently; "
        "`kubectl kvpool upgrade` or the next spec change applies it",
    )


def summary_conditions(
    violation: Violation | None, paused: bool, waiting_for: str, ready_message: str
) -> tuple[Said, ...]:
    """Ready, Reconciling and Stalled in the one combination that kstatus expects for each situation."""
    if paused and not violation:
        message = "spec.paused is set; nothing is written until it is cleared"
        return (
            Said(READY, "Unknown", Reason.PAUSED, message),
            Said(RECONCILING, "False", Reason.PAUSED, message),
            Said(STALLED, "False", Reason.AS_DESIRED, ""),
        )
    if violation:
        return (
            Said(READY, "False", violation.reason, violation.message),
            Said(RECONCILING, "False", Reason.AS_DESIRED, "waiting for a change"),
            Said(STALLED, "True", violation.reason, violation.message),
        )
    if waiting_for:
        return (
            Said(READY, "False", Reason.PROGRESSING, waiting_for),
            Said(RECONCILING, "True", Reason.PROGRESSING, waiting_for),
            Said(STALLED, "False", Reason.AS_DESIRED, ""),
        )
    return (
        Said(READY, "True", Reason.AVAILABLE, ready_message),
        Said(RECONCILING, "False", Reason.AS_DESIRED, ""),
        Said(STALLED, "False", Reason.AS_DESIRED, ""),
    )


def merge_conditions(
    previous: Sequence[Mapping[str, Any]], said: Sequence[Said], generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions to store, sorted by type; `now` is an RFC 3339 time in UTC."""
    before = {condition["type"]: condition for condition in previous}
    merged = []
    for item in sorted(said, key=lambda each: each.type):
        old = before.get(item.type)
        unchanged = old is not None and old.get("status") == item.status
        merged.append(
            {
                "type": item.type,
                "status": item.status,
                "reason": item.reason.value,
                "message": item.message,
                "observedGeneration": generation,
                "lastTransitionTime": old["lastTransitionTime"] if old is not None and unchanged else now,
            }
        )
    return merged


def is_reconciling(status: Mapping[str, Any]) -> bool:
    """Whether the status says that something is on its way."""
    return any(each["type"] == RECONCILING and each["status"] == "True" for each in status.get("conditions") or [])
