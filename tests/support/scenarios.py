"""What users do to pools and groups, as named sequences of actions; each is followed by rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.support.objects import Object, changed, group, mixed_group, pool
from tests.support.trial import Action, Trial


def put(*objects: Object) -> Action:
    """Apply these."""

    async def action(trial: Trial) -> None:
        for obj in objects:
            await trial.user.put(obj, trial.namespace)

    return action


def scale(role: str, replicas: int) -> Action:
    """`kubectl scale`."""

    async def action(trial: Trial) -> None:
        await trial.user.merge_patch("InferenceRole", trial.namespace, role, {"spec": {"replicas": replicas}})

    return action


def edit_child(kind: str, suffix: str, patch: Object) -> Action:
    """Somebody changes a child by hand."""

    async def action(trial: Trial) -> None:
        child = await _child(trial, kind, suffix)
        await trial.user.merge_patch(kind, trial.namespace, child["metadata"]["name"], patch)

    return action


def delete_child(kind: str, suffix: str) -> Action:
    """Somebody deletes a child by hand."""

    async def action(trial: Trial) -> None:
        child = await _child(trial, kind, suffix)
        uid = child["metadata"]["uid"]
        await trial.user.delete(kind, trial.namespace, child["metadata"]["name"], uid)
        await trial.gone(lambda obj: obj["metadata"]["uid"] == uid)

    return action


async def _child(trial: Trial, kind: str, part: str) -> Object:
    return next(obj for obj in await trial.user.list(kind, trial.namespace) if part in obj["metadata"]["name"])


def delete(kind: str, name: str) -> Action:
    """Delete a pool or a group, and wait for its children to go with it."""

    async def action(trial: Trial) -> None:
        obj = await trial.user.get(kind, trial.namespace, name)
        assert obj is not None
        uid = obj["metadata"]["uid"]
        await trial.user.remove(kind, trial.namespace, name)
        await trial.gone(
            lambda child: (
                child["metadata"]["uid"] == uid
                or any(ref["uid"] == uid for ref in child["metadata"].get("ownerReferences") or [])
            )
        )

    return action


POOL, SPLIT, MIXED = pool(), group(), mixed_group()
OTHER = mixed_group("other")
ENV = [{"name": "LEVEL", "value": "1"}]
RENAMED = changed(SPLIT, spec__roles=[{"name": "prefill", "type": "Prefill"}, {"name": "writer", "type": "Decode"}])

SCENARIOS: Mapping[str, tuple[Action, ...]] = MappingProxyType(
    {
        "create split": (put(POOL, SPLIT),),
        "create mixed": (put(POOL, MIXED),),
        "scale up and down": (put(POOL, MIXED), scale("qwen-mixed", 3), scale("qwen-mixed", 1)),
        "image change": (put(POOL, SPLIT), put(changed(SPLIT, spec__engine__image="engine:2"))),
        "config change": (put(POOL, SPLIT), put(changed(SPLIT, spec__roles__1__env=ENV)), put(SPLIT)),
        "child edited by hand": (
            put(POOL, MIXED),
            edit_child("Service", "qwen-router", {"spec": {"selector": {"kvpool.dev/group": "x"}}}),
        ),
        "child deleted by hand": (put(POOL, MIXED), delete_child("Deployment", "qwen-mixed")),
        "mixed to split and back": (put(POOL, MIXED), put(SPLIT), put(MIXED)),
        "a role renamed": (put(POOL, SPLIT), put(RENAMED)),
        "pool edit that reaches two groups": (put(POOL, SPLIT, OTHER), put(pool(segment={"size": "512Mi"}))),
        "a number fixed and released": (
            put(POOL, MIXED),
            put(changed(MIXED, spec__roles__0__replicas=2)),
            put(MIXED),
        ),
        "delete": (put(POOL, SPLIT), delete("InferenceGroup", "qwen"), delete("KVPool", "shared")),
    }
)
