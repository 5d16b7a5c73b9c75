"""Pinned rendering: how a roll unit was rendered when its inputs first appeared stays in force until they change.

A ControllerRevision holds the inputs and the rendered pod template. A newer operator that would render the same inputs
differently uses the recorded template, so that its arrival restarts no pod; `outdated` names the units it differs on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvpool_operator.api.names import revision_name
from kvpool_operator.build.meta import Owner, owned
from kvpool_operator.plan.canonical import canonical
from kvpool_operator.plan.facts import ChildKey, Object


@dataclass(frozen=True, slots=True)
class Pinned:
    """The template in force for one roll unit, and the object that keeps it."""

    template: dict[str, Any]
    revision: dict[str, Any]
    name: str
    outdated: bool


def pin_template(
    owner: Owner,
    unit: str,
    digest: str,
    inputs: Mapping[str, Any],
    rendered: dict[str, Any],
    children: Mapping[ChildKey, Object],
) -> Pinned:
    """The recorded template where there is one for these inputs, else the one rendered now."""
    name = revision_name(owner.name, unit, digest)
    recorded = children.get(("ControllerRevision", name))
    template = dict(recorded["data"]["template"]) if recorded else rendered
    revision = owned(
        owner,
        "apps/v1",
        "ControllerRevision",
        name,
        "revision",
        {"revision": 1, "data": {"inputs": dict(inputs), "template": template}},
    )
    return Pinned(template, revision, name, outdated=canonical(template) != canonical(rendered))
