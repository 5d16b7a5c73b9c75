"""What a reconciler has seen, as values: the input of every plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]
ChildKey = tuple[str, str]
"""Kind and name; children live in their owner's namespace."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the installation decides: images of kvpool's own parts."""

    connector_image: str
    router_image: str
    image_pull_policy: str | None = None


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """A pool, its children, and the groups that point at it."""

    pool: Object
    children: Mapping[ChildKey, Object]
    consumers: tuple[str, ...] = ()
    """namespace/name of each group, sorted."""


@dataclass(frozen=True, slots=True)
class ObservedGroup:
    """A group, its children, its pool if that exists, and what its pods complain of."""

    group: Object
    children: Mapping[ChildKey, Object]
    pool: Object | None = None
    namespace_labels: Mapping[str, str] | None = None
    """Labels of the group's namespace; None where they were not needed or cannot be read."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """By role: the first thing that keeps a pod of it from running, in the pod's or the scheduler's own words."""


def uid_of(obj: Object) -> str:
    """The object's uid."""
    return str(obj["metadata"]["uid"])


def is_owned_by(obj: Object, uid: str) -> bool:
    """Whether the object's controller is the one with this uid."""
    references = obj["metadata"].get("ownerReferences") or []
    return any(ref.get("controller") and ref.get("uid") == uid for ref in references)
