"""Looking: the only reads of a reconcile. GET by name, LIST by label, and pods only where something is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from kvpool_operator.api.names import GROUP_LABEL, POOL_LABEL, ROLE_LABEL
from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.cluster.converge import child_key
from kvpool_operator.cluster.errors import ForbiddenError
from kvpool_operator.cluster.resources import GROUP_CHILDREN, POOL_CHILDREN
from kvpool_operator.plan.facts import ChildKey, Object, ObservedGroup, ObservedPool

ALL_NAMESPACES: tuple[None] = (None,)


async def observe_pool(api: ClusterAPI, namespace: str, name: str, watched: Sequence[str]) -> ObservedPool | None:
    """The pool with its children and consumers, or None when it is gone."""
    pool = await api.get("KVPool", namespace, name)
    if pool is None:
        return None
    children, consumers = await asyncio.gather(
        _children(api, namespace, POOL_CHILDREN, f"{POOL_LABEL}={name}"),
        _consumers(api, namespace, name, watched),
    )
    return ObservedPool(pool=pool, children=children, consumers=consumers)


async def observe_group(api: ClusterAPI, namespace: str, name: str) -> ObservedGroup | None:
    """The group with its children and its pool, or None when it is gone."""
    group = await api.get("InferenceGroup", namespace, name)
    if group is None:
        return None
    reference = group["spec"]["poolRef"]
    children, pool = await asyncio.gather(
        _children(api, namespace, GROUP_CHILDREN, f"{GROUP_LABEL}={name}"),
        api.get("KVPool", reference.get("namespace") or namespace, reference["name"]),
    )
    labels = await _namespace_labels(api, namespace, pool)
    troubles = await _troubles(api, namespace, name) if _something_is_not_ready(children) else {}
    return ObservedGroup(group=group, children=children, pool=pool, namespace_labels=labels, troubles=troubles)


async def _children(api: ClusterAPI, namespace: str, kinds: Sequence[str], selector: str) -> Mapping[ChildKey, Object]:
    lists = await asyncio.gather(*(api.list(kind, namespace, selector) for kind in kinds))
    return {child_key(child): child for items in lists for child in items}


async def _consumers(api: ClusterAPI, namespace: str, name: str, watched: Sequence[str]) -> tuple[str, ...]:
    """Groups that point at the pool, in every namespace that is watched."""
    lists = await asyncio.gather(*(api.list("InferenceGroup", where) for where in (watched or ALL_NAMESPACES)))
    found = []
    for group in (item for items in lists for item in items):
        meta, reference = group["metadata"], group["spec"]["poolRef"]
        if (reference.get("namespace") or meta["namespace"], reference["name"]) == (namespace, name):
            found.append(f"{meta['namespace']}/{meta['name']}")
    return tuple(sorted(found))


async def _namespace_labels(api: ClusterAPI, namespace: str, pool: Object | None) -> Mapping[str, str] | None:
    """The namespace's labels, where the pool selects by them and we may read namespaces."""
    allowed: Mapping[str, Any] = ((pool or {}).get("spec") or {}).get("allowedNamespaces") or {}
    if allowed.get("from") != "Selector":
        return None
    try:
        found = await api.get("Namespace", None, namespace)
    except ForbiddenError:
        return None
    return ((found or {}).get("metadata") or {}).get("labels") or {}


def _something_is_not_ready(children: Mapping[ChildKey, Object]) -> bool:
    """A Deployment with fewer ready pods than wanted."""
    return any(
        (child.get("status") or {}).get("readyReplicas", 0) < child["spec"].get("replicas", 1)
        for (kind, _), child in children.items()
        if kind == "Deployment"
    )


async def _troubles(api: ClusterAPI, namespace: str, group: str) -> Mapping[str, str]:
    """By role: what the scheduler, the kubelet or the launcher says of the first pod in trouble."""
    troubles: dict[str, str] = {}
    for pod in await api.list("Pod", namespace, f"{GROUP_LABEL}={group}"):
        role = pod["metadata"]["labels"].get(ROLE_LABEL)
        if role and role not in troubles and (trouble := _trouble_of(pod)):
            troubles[role] = trouble
    return troubles


def _trouble_of(pod: Object) -> str:
    status = pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        ended = (container.get("state") or {}).get("terminated") or (container.get("lastState") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            message = (ended.get("message") or ended.get("reason") or "").strip().splitlines()
            return f"{container['name']} exited {ended['exitCode']}: {message[-1] if message else 'no message'}"
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"{container['name']}: {waiting['reason']} {waiting.get('message', '')}".strip()
    return ""
