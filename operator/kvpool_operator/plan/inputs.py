"""The inputs of each roll unit: the parts of the stored specs that reach its pods, as the user wrote them.

Pods restart when their inputs change and at no other time. So the inputs hold nothing that an operator version
decides (default images, default numbers): those are resolved when a unit is first rendered, and pinned with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvpool_operator.api.names import UPGRADE_ANNOTATION
from kvpool_operator.plan.canonical import without_empty

Inputs = Mapping[str, Any]

_MASTER_FIELDS = ("backend", "release", "image", "imagePullPolicy", "imagePullSecrets", "placement")
_SHARED_POOL_FIELDS = ("backend", "hardware", "segment", "identity")
_SCALE_FIELDS = frozenset({"replicas", "initialReplicas"})
_WIRE_FIELDS = frozenset({"name", "type", "parallelism"})


def _pick(spec: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    return {name: spec[name] for name in fields if name in spec}


def _upgrade(obj: Mapping[str, Any]) -> str | None:
    return (obj["metadata"].get("annotations") or {}).get(UPGRADE_ANNOTATION)


def master_inputs(pool: Mapping[str, Any]) -> Inputs:
    """What the master's pods depend on."""
    spec = pool["spec"]
    settings = (spec.get("mooncake") or {}).get("master")
    return _clean({**_pick(spec, _MASTER_FIELDS), "master": settings, "upgrade": _upgrade(pool)})


def role_inputs(group: Mapping[str, Any], role: Mapping[str, Any], pool: Mapping[str, Any]) -> Inputs:
    """What one role's engines depend on: its own part, what all roles share, and the pool's contract."""
    spec = group["spec"]
    return _clean(
        {
            **_pick(spec, ("model", "engine", "kv")),
            "role": {key: value for key, value in role.items() if key not in _SCALE_FIELDS},
            "wire": _wire(spec),
            "drainSeconds": (spec.get("rollout") or {}).get("drainSeconds"),
            "pool": _pool_reference(pool),
            "upgrade": _upgrade(group),
        }
    )


def router_inputs(group: Mapping[str, Any], pool: Mapping[str, Any]) -> Inputs:
    """What the router's pods depend on."""
    spec = group["spec"]
    settings = {key: value for key, value in (spec.get("router") or {}).items() if key not in ("replicas", "port")}
    return _clean(
        {
            "router": settings,
            "servedName": spec["model"]["servedName"],
            "transfer": (spec.get("kv") or {}).get("transfer"),
            "connector": spec["engine"].get("connector"),
            "hardware": pool["spec"]["hardware"],
            "types": sorted(role["type"] for role in spec["roles"]),
            "upgrade": _upgrade(group),
        }
    )


def pairing_inputs(group: Mapping[str, Any], pool: Mapping[str, Any]) -> Inputs:
    """What prefill and decode must agree on over the wire; the router pairs only within one value of it."""
    spec = group["spec"]
    return _clean(
        {
            "model": _pick(spec["model"], ("path", "revision")),
            "release": spec["engine"]["release"],
            "connector": spec["engine"].get("connector"),
            "transfer": (spec.get("kv") or {}).get("transfer"),
            "wire": _wire(spec),
            "pool": _pool_reference(pool, segment=False),
        }
    )


def _wire(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Both roles' names, types and sizes, as they are advertised to each other."""
    roles = [{key: value for key, value in role.items() if key in _WIRE_FIELDS} for role in spec["roles"]]
    return sorted(roles, key=lambda role: str(role["name"]))


def _pool_reference(pool: Mapping[str, Any], *, segment: bool = True) -> dict[str, Any]:
    meta = pool["metadata"]
    fields = tuple(name for name in _SHARED_POOL_FIELDS if segment or name != "segment")
    return {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"], **_pick(pool["spec"], fields)}


def _clean(value: dict[str, Any]) -> Inputs:
    cleaned = without_empty(value)
    assert isinstance(cleaned, dict)
    return cleaned
