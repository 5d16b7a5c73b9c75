"""Objects as the API server would give them back, and what a reconciler would have seen of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from kvpool_operator.build.group import BuiltGroup, build_group
from kvpool_operator.build.mooncake import BuiltPool, build_pool
from kvpool_operator.cluster.converge import child_key
from kvpool_operator.plan.facts import ChildKey, Defaults, ObservedGroup, ObservedPool
from kvpool_operator.plan.group import GroupDecision, plan_group
from kvpool_operator.plan.pool import PoolDecision, plan_pool
from tests.support.objects import Object

DEFAULTS = Defaults(connector_image="connector:1", router_image="router:1")
POOL_UID = "11111111-1111-1111-1111-111111111111"
GROUP_UID = "22222222-2222-2222-2222-222222222222"
NOW = "2026-12-01T00:00:00Z"


def live(obj: Object, *, uid: str = "", namespace: str = "ml", generation: int = 1) -> Object:
    """The object with what the API server adds."""
    default = {"KVPool": POOL_UID, "InferenceGroup": GROUP_UID}.get(obj["kind"], f"uid-of-{obj['metadata']['name']}")
    result = copy.deepcopy(obj)
    result["metadata"] = {
        "namespace": namespace,
        "uid": uid or default,
        "generation": generation,
        "resourceVersion": "1",
        **result["metadata"],
    }
    return result


def by_key(objects: Iterable[Mapping[str, Any]]) -> dict[ChildKey, Mapping[str, Any]]:
    """Children as an observation holds them."""
    return {child_key(obj): obj for obj in objects}


def observed_pool(pool: Object, children: Iterable[Mapping[str, Any]] = (), **more: Any) -> ObservedPool:
    """What a reconciler sees of a pool."""
    return ObservedPool(pool=live(pool), children=by_key(children), **more)


def observed_group(
    group: Object, pool: Object | None, children: Iterable[Mapping[str, Any]] = (), **more: Any
) -> ObservedGroup:
    """What a reconciler sees of a group."""
    return ObservedGroup(
        group=live(group), pool=live(pool) if pool is not None else None, children=by_key(children), **more
    )


def built_pool(pool: Object, children: Iterable[Mapping[str, Any]] = ()) -> tuple[PoolDecision, BuiltPool]:
    """Decision and children of a valid pool."""
    observed = observed_pool(pool, children)
    decision = plan_pool(observed)
    assert decision.violation is None, decision.violation
    return decision, build_pool(observed, decision)


def built_group(
    group: Object, pool: Object, children: Iterable[Mapping[str, Any]] = (), defaults: Defaults = DEFAULTS
) -> tuple[GroupDecision, BuiltGroup]:
    """Decision and children of a valid group."""
    observed = observed_group(group, pool, children)
    decision = plan_group(observed, defaults)
    assert decision.violation is None, decision.violation
    return decision, build_group(observed, decision)


def child(built: BuiltGroup | BuiltPool, kind: str, prefix: str = "") -> dict[str, Any]:
    """The one child of a kind whose name starts so."""
    found = [c for c in built.children if c["kind"] == kind and c["metadata"]["name"].startswith(prefix)]
    assert len(found) == 1, [c["metadata"]["name"] for c in found]
    return found[0]


def with_status(obj: Mapping[str, Any], **status: Any) -> dict[str, Any]:
    """The object as stored, with a status."""
    stored = live(dict(copy.deepcopy(dict(obj))))
    return {**stored, "status": {"observedGeneration": 1, **status}}


def ready_workload(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A workload whose every replica is current and ready."""
    replicas = obj["spec"]["replicas"]
    return with_status(obj, replicas=replicas, updatedReplicas=replicas, readyReplicas=replicas)


def container(workload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One container of a workload's pods."""
    spec = workload["spec"]["template"]["spec"]
    return next(c for c in [*spec["containers"], *spec.get("initContainers", [])] if c["name"] == name)


def env_of(workload: Mapping[str, Any], name: str = "engine") -> dict[str, str]:
    """Literal variables of a container."""
    return {v["name"]: v["value"] for v in container(workload, name)["env"] if "value" in v}
