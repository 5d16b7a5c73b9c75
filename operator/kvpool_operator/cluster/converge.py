"""How children are written. One rule for all kinds, safe to be cut at any write:

- absent: POST. The name is taken: look whose it is; ours means our view was old, anything else is left alone for good.
- ours and different: one server-side apply that carries the observed uid, so that a child deleted meanwhile is never
  brought back by an old decision.
- what a POST set belongs to our manager as `Update`, and a later apply would never remove it: before the first apply
  that entry is turned into `Apply`.
- not ours: named in the outcome, never taken over.
- ours and no longer wanted: deleted, after everything wanted has been written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvpool_operator.api.names import DESIRED_HASH, FIELD_MANAGER
from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.cluster.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ObserveAgainError,
)
from kvpool_operator.plan.drift import first_difference
from kvpool_operator.plan.facts import ChildKey, Object, is_owned_by, uid_of


@dataclass(slots=True)
class Outcome:
    """What was written, and what could not be."""

    written: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    refused: str = ""
    """The API server's words, where it refused a child's content."""


def child_key(obj: Mapping[str, Any]) -> ChildKey:
    """Kind and name."""
    return obj["kind"], obj["metadata"]["name"]


async def converge(
    api: ClusterAPI,
    owner_uid: str,
    desired: Iterable[Object],
    observed: Mapping[ChildKey, Object],
    retained: Collection[ChildKey] = (),
) -> Outcome:
    """Make the children what they should be; raises ObserveAgainError when the view turns out to be old."""
    outcome = Outcome()
    wanted = list(desired)
    for child in wanted:
        try:
            await ensure_child(api, owner_uid, child, observed.get(child_key(child)), outcome)
        except InvalidError as error:
            outcome.refused = f"{' '.join(child_key(child))}: {error.message}"
            return outcome
    keep = {child_key(child) for child in wanted} | set(retained)
    for key, child in observed.items():
        if key not in keep and is_owned_by(child, owner_uid) and "deletionTimestamp" not in child["metadata"]:
            await delete_child(api, child, outcome)
    return outcome


async def ensure_child(
    api: ClusterAPI, owner_uid: str, desired: Object, observed: Object | None, outcome: Outcome
) -> None:
    """Create the child, or repair it where it differs."""
    kind, name = child_key(desired)
    if observed is None:
        await create_child(api, owner_uid, desired, outcome)
        return
    if not is_owned_by(observed, owner_uid):
        outcome.foreign.append(f"{kind} {name}")
        return
    if "deletionTimestamp" in observed["metadata"]:
        raise ObserveAgainError(f"{kind} {name} is being deleted")
    if not _differs(desired, observed):
        return
    try:
        await _adopt_created_fields(api, observed)
        await api.apply({**desired, "metadata": {**desired["metadata"], "uid": uid_of(observed)}})
    except (ConflictError, NotFoundError) as error:
        raise ObserveAgainError(f"{kind} {name}: {error}") from error
    except InvalidError as error:
        if error.is_about("metadata.uid"):  # deleted and made anew meanwhile
            raise ObserveAgainError(f"{kind} {name}: {error}") from error
        raise
    outcome.written.append(f"apply {kind} {name}")


async def create_child(api: ClusterAPI, owner_uid: str, desired: Object, outcome: Outcome) -> None:
    """POST; a taken name is either news or somebody else's."""
    kind, name = child_key(desired)
    try:
        await api.create(desired)
    except AlreadyExistsError as error:
        existing = await api.get(kind, desired["metadata"]["namespace"], name)
        if existing is None or is_owned_by(existing, owner_uid):
            raise ObserveAgainError(f"{kind} {name} appeared meanwhile") from error
        outcome.foreign.append(f"{kind} {name}")
        return
    except ForbiddenError as error:
        if any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes()):
            raise ObserveAgainError(f"the namespace of {kind} {name} is going away") from error
        raise
    outcome.written.append(f"create {kind} {name}")


async def delete_child(api: ClusterAPI, child: Object, outcome: Outcome) -> None:
    """DELETE of exactly the object that was seen."""
    kind, name = child_key(child)
    try:
        await api.delete(kind, child["metadata"]["namespace"], name, uid_of(child))
    except ConflictError as error:
        raise ObserveAgainError(f"{kind} {name}: {error}") from error
    outcome.written.append(f"delete {kind} {name}")


def _differs(desired: Object, observed: Object) -> bool:
    """Wanted something else than last time, or someone changed what we want."""
    annotations = observed["metadata"].get("annotations") or {}
    if annotations.get(DESIRED_HASH) != desired["metadata"]["annotations"][DESIRED_HASH]:
        return True
    return first_difference(_without_identity(desired), observed) is not None


def _without_identity(desired: Object) -> dict[str, Any]:
    """Owner references are compared by is_owned_by; their items have no single key."""
    metadata = {key: value for key, value in desired["metadata"].items() if key != "ownerReferences"}
    return {**desired, "metadata": metadata}


async def _adopt_created_fields(api: ClusterAPI, observed: Object) -> None:
    """Turn our `Update` entry of managedFields, left by the POST, into an `Apply` entry."""
    entries = observed["metadata"].get("managedFields") or []
    for index, entry in enumerate(entries):
        if (
            entry.get("manager") == FIELD_MANAGER
            and entry.get("operation") == "Update"
            and not entry.get("subresource")
        ):
            await _become_apply(api, observed, index)
            return


async def _become_apply(api: ClusterAPI, observed: Object, index: int) -> None:
    meta = observed["metadata"]
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]},
        {"op": "replace", "path": f"/metadata/managedFields/{index}/operation", "value": "Apply"},
    ]
    try:
        await api.json_patch(observed["kind"], meta["namespace"], meta["name"], patch)
    except InvalidError as error:  # the test failed: somebody wrote meanwhile
        raise ObserveAgainError(f"{observed['kind']} {meta['name']}: {error}") from error
