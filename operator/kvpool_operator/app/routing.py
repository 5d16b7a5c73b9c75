"""Which objects an event is about. One key is one pool or group; events of children map to their owner.

The index only decides who hears of a change sooner: a resync looks at everything, so nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvpool_operator.api.names import GROUP_LABEL, POOL_LABEL


class Key(NamedTuple):
    """One object to reconcile."""

    kind: str
    namespace: str
    name: str


_OWNER_KINDS = ((GROUP_LABEL, "InferenceGroup"), (POOL_LABEL, "KVPool"))


@dataclass(slots=True)
class Router:
    """Remembers which group uses which pool, and which generation of a pool was heard of."""

    pool_of: dict[Key, Key] = field(default_factory=dict)
    generation_of: dict[Key, tuple[str, int]] = field(default_factory=dict)

    def keys_for(self, kind: str, event: str | None, obj: Mapping[str, Any]) -> list[Key]:
        """The keys that an event of this kind makes due."""
        meta = obj["metadata"]
        key = Key(kind, meta["namespace"], meta["name"])
        if kind == "InferenceGroup":
            return [key, *self._pools_touched(key, event, obj)]
        if kind == "KVPool":
            return [key, *self._groups_touched(key, event, obj)]
        labels = meta.get("labels") or {}
        return [Key(owner, meta["namespace"], labels[label]) for label, owner in _OWNER_KINDS if label in labels][:1]

    def _pools_touched(self, group: Key, event: str | None, obj: Mapping[str, Any]) -> set[Key]:
        """A pool lists its consumers, so it hears of groups that come, move or go."""
        before = self.pool_of.get(group)
        if event == "DELETED":
            self.pool_of.pop(group, None)
            return {before} if before else set()
        reference = (obj.get("spec") or {}).get("poolRef") or {}
        after = Key("KVPool", reference.get("namespace") or group.namespace, reference.get("name", ""))
        self.pool_of[group] = after
        return set() if before == after else {each for each in (before, after) if each}

    def _groups_touched(self, pool: Key, event: str | None, obj: Mapping[str, Any]) -> list[Key]:
        """Groups render from a pool's spec, so they hear of a new generation and of the pool's coming and going."""
        seen = (obj["metadata"]["uid"], obj["metadata"].get("generation", 0))
        if event == "DELETED":
            self.generation_of.pop(pool, None)
        elif self.generation_of.get(pool) == seen:
            return []
        else:
            self.generation_of[pool] = seen
        return [group for group, used in self.pool_of.items() if used == pool]
