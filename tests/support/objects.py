"""Objects of the API as plain dicts: the smallest valid one of each kind, and changes to them by path."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]
REMOVED = object()
"""A value for `changed` that takes the field away."""

API_VERSION = "kvpool.dev/v1alpha1"


def pool(name: str = "shared", **spec: Any) -> Object:
    """A pool without accelerators."""
    return {
        "apiVersion": API_VERSION,
        "kind": "KVPool",
        "metadata": {"name": name},
        "spec": {
            "backend": "Mooncake",
            "hardware": {"series": "CPU", "link": "TCP"},
            "segment": {"size": "256Mi"},
            **spec,
        },
    }


def group(name: str = "qwen", **spec: Any) -> Object:
    """A group with one prefill and one decode role."""
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceGroup",
        "metadata": {"name": name},
        "spec": {
            "poolRef": {"name": "shared"},
            "model": {"servedName": "qwen", "path": "/models/qwen", "source": {"type": "Image"}},
            "engine": {"image": "engine:1", "release": "0.32.0"},
            "roles": [{"name": "prefill", "type": "Prefill"}, {"name": "decode", "type": "Decode"}],
            **spec,
        },
    }


def mixed_group(name: str = "qwen", **spec: Any) -> Object:
    """A group with one mixed role."""
    return group(name, **{"roles": [{"name": "mixed", "type": "Mixed"}], **spec})


def role(name: str = "qwen-decode", **spec: Any) -> Object:
    """The scale of one role."""
    return {"apiVersion": API_VERSION, "kind": "InferenceRole", "metadata": {"name": name}, "spec": spec}


def changed(source: Object, **changes: Any) -> Object:
    """A copy with other values at some paths; `spec__roles__1__type="Mixed"` is spec.roles[1].type."""
    result = copy.deepcopy(source)
    for path, value in changes.items():
        *parents, last = path.split("__")
        node: Any = result
        for part in parents:
            node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
        if value is REMOVED:
            del node[last]
        elif isinstance(node, list):
            node[int(last) : int(last) + 1] = [value]
        else:
            node[last] = value
    return result
