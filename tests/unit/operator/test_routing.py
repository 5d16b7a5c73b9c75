from __future__ import annotations

from kvpool_operator.app.routing import Key, Router
from tests.support.live import live
from tests.support.objects import changed, group, pool

GROUP = Key("InferenceGroup", "ml", "qwen")
POOL = Key("KVPool", "ml", "shared")


def test_events_of_children_map_to_their_owner() -> None:
    child = {"metadata": {"namespace": "ml", "name": "x", "labels": {"kvpool.dev/group": "qwen"}}}
    assert Router().keys_for("Deployment", "MODIFIED", child) == [GROUP]
    child = {"metadata": {"namespace": "ml", "name": "x", "labels": {"kvpool.dev/pool": "shared"}}}
    assert Router().keys_for("StatefulSet", "DELETED", child) == [POOL]


def test_an_object_without_our_labels_is_nobodys() -> None:
    assert Router().keys_for("Service", "ADDED", {"metadata": {"namespace": "ml", "name": "x"}}) == []


def test_a_pool_hears_of_groups_that_come_move_and_go() -> None:
    router = Router()
    assert router.keys_for("InferenceGroup", "ADDED", live(group())) == [GROUP, POOL]
    assert router.keys_for("InferenceGroup", "MODIFIED", live(group())) == [GROUP]
    moved = live(changed(group(), spec__poolRef={"name": "other"}))
    assert set(router.keys_for("InferenceGroup", "MODIFIED", moved)) == {GROUP, POOL, Key("KVPool", "ml", "other")}
    assert router.keys_for("InferenceGroup", "DELETED", moved) == [GROUP, Key("KVPool", "ml", "other")]


def test_groups_hear_of_a_pools_new_generation_and_not_of_its_status() -> None:
    router = Router()
    router.keys_for("InferenceGroup", "ADDED", live(group()))
    assert router.keys_for("KVPool", "ADDED", live(pool())) == [POOL, GROUP]
    assert router.keys_for("KVPool", "MODIFIED", {**live(pool()), "status": {"members": "1/1"}}) == [POOL]
    assert router.keys_for("KVPool", "MODIFIED", live(pool(), generation=2)) == [POOL, GROUP]
    assert router.keys_for("KVPool", "DELETED", live(pool(), generation=2)) == [POOL, GROUP]
    assert router.keys_for("KVPool", "ADDED", live(pool(), uid="other")) == [POOL, GROUP]
