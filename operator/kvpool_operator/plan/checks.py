"""What a check is: a small function that looks at the facts and says nothing, or which rule is broken and what to do.

A kind's policy is a list of checks. The first violation stalls the object; its text goes into the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kvpool_operator.api.reasons import Reason

Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: the reason for machines and the sentence for people."""

    reason: Reason
    message: str


Check = Callable[[Facts], Violation | None]


def first_violation(checks: Sequence[Check[Facts]], facts: Facts) -> Violation | None:
    """Run the checks in order; the first that objects wins."""
    for check in checks:
        if violation := check(facts):
            return violation
    return None
