"""Children that people edit, delete or own: repaired, recreated, left alone; and at rest nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvpool_operator.plan.facts import Defaults
from kvpool_operator.reconcile.context import Context
from kvpool_operator.reconcile.group import reconcile_group
from kvpool_operator.reconcile.pool import reconcile_pool
from tests.cluster.conftest import World
from tests.support.counting_api import counting_api
from tests.support.objects import Object, group, mixed_group, pool

pytestmark = pytest.mark.cluster

# One field of each child that we want and somebody changes, as a merge patch.
EDITS: list[tuple[str, str, dict[str, Any]]] = [
    ("sts", "shared-master", {"spec": {"replicas": 0}}),
    ("svc", "shared-master", {"spec": {"publishNotReadyAddresses": False}}),
    ("svc", "shared-master-0", {"spec": {"selector": {"kvpool.dev/pool": "another"}}}),
    ("cm", "shared-client", {"data": {"PYTHONHASHSEED": "random"}}),
    ("deploy", "qwen-mixed", {"spec": {"replicas": 0}}),
    ("svc", "qwen-mixed", {"metadata": {"labels": {"kvpool.dev/pairing": "00000000"}}}),
    ("deploy", "qwen-router", {"spec": {"replicas": 0}}),
    ("svc", "qwen-router", {"spec": {"selector": {"kvpool.dev/group": "another"}}}),
    ("role", "qwen-router", {"rules": []}),
    ("rolebinding", "qwen-router", {"subjects": []}),
    ("sa", "qwen-router", {"metadata": {"labels": {"app.kubernetes.io/component": "other"}}}),
]


def _find(world: World, kind: str, prefix: str) -> Any:
    exact = prefix.endswith(("router", "master", "master-0", "client"))
    found = [
        o
        for o in world.list(kind)
        if o["metadata"]["name"] == prefix or (not exact and o["metadata"]["name"].startswith(prefix))
    ]
    return found[0] if found else None


def _meaning(obj: Any) -> str:
    """The object without what the API server counts."""
    meta = {k: v for k, v in obj["metadata"].items() if k in ("name", "labels", "annotations", "ownerReferences")}
    meta["annotations"] = {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith("kvpool.dev/")}
    rest = {k: v for k, v in obj.items() if k not in ("metadata", "status")}
    spec = rest.get("spec")
    if spec:
        rest["spec"] = {k: v for k, v in spec.items() if k not in ("clusterIP", "clusterIPs")}
    return json.dumps([meta, rest], sort_keys=True)


@pytest.fixture
def ready(world: World) -> World:
    """A pool and a mixed group, at rest."""
    world.apply(pool(), mixed_group())
    world.wait_ready(pool(), mixed_group())
    return world


def test_every_edited_child_is_repaired(ready: World) -> None:
    before = {(kind, name): _meaning(_find(ready, kind, name)) for kind, name, _ in EDITS}
    for kind, name, patch in EDITS:
        target = _find(ready, kind, name)["metadata"]["name"]
        ready.run("patch", kind, target, "--type=merge", "-p", json.dumps(patch))
    for kind, name, _ in EDITS:
        ready.wait_for(
            f"{kind} {name} to be as before", lambda k=kind, n=name: _meaning(_find(ready, k, n)) == before[k, n]
        )
    ready.wait_ready(pool(), mixed_group())


def test_every_deleted_child_comes_back(ready: World) -> None:
    for kind, name, _ in EDITS:
        old = _find(ready, kind, name)
        ready.run("delete", kind, old["metadata"]["name"])
        ready.wait_for(
            f"{kind} {name} to come back",
            lambda k=kind, n=name, uid=old["metadata"]["uid"]: (
                (new := _find(ready, k, n)) is not None and new["metadata"]["uid"] != uid
            ),
        )
    ready.wait_ready(pool(), mixed_group())


def test_a_foreign_object_with_a_childs_name_is_left_alone(world: World) -> None:
    foreign: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "qwen-router"},
        "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
    }
    world.apply(foreign)
    before = world.get("svc", "qwen-router")
    world.apply(pool(), mixed_group())
    conflict = world.wait_condition("InferenceGroup", "qwen", "Conflict", "True")
    assert "Service qwen-router" in conflict["message"]
    assert world.condition("InferenceGroup", "qwen")["status"] == "False"
    after = world.get("svc", "qwen-router")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    world.run("delete", "svc", "qwen-router")
    world.wait_ready(mixed_group())
    assert world.condition("InferenceGroup", "qwen", "Conflict")["status"] == "False"


def test_a_field_that_somebody_adds_is_not_fought_over(ready: World) -> None:
    name = _find(ready, "deploy", "qwen-mixed")["metadata"]["name"]
    ready.run("annotate", "deploy", name, "mesh.example/inject=yes")
    ready.run("label", "svc", "qwen-router", "team=a")
    ready.run("annotate", "ig/qwen", "touched=yes")
    ready.wait_ready(mixed_group())
    assert ready.get("deploy", name)["metadata"]["annotations"]["mesh.example/inject"] == "yes"
    assert ready.get("svc", "qwen-router")["metadata"]["labels"]["team"] == "a"


@pytest.mark.parametrize("obj", [mixed_group(), group()], ids=["mixed", "split"])
async def test_a_converged_pool_and_group_cost_no_writes(world: World, control_plane: Path, obj: Object) -> None:
    world.apply(pool(), obj)
    world.wait_ready(pool(), obj)
    defaults = Defaults("localhost/kvpool/connector:dev", "localhost/kvpool/router:dev")
    async with counting_api(control_plane) as api:
        context = Context(api, defaults, (world.namespace,), lambda: "2030-01-01T00:00:00Z")
        for _ in range(100):
            await reconcile_pool(context, world.namespace, "shared")
            await reconcile_group(context, world.namespace, "qwen")
        assert api.writes == []
        assert api.reads >= 100 * 10
