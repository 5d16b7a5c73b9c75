"""What only the operator can see: said precisely, nothing running is disturbed, and mending the spec is enough."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.conftest import World
from tests.support.objects import Object, changed, group, mixed_group, pool

pytestmark = pytest.mark.cluster


def test_a_missing_pool_is_said_and_its_arrival_is_enough(world: World) -> None:
    world.apply(mixed_group())
    stalled = world.wait_condition("InferenceGroup", "qwen", "Stalled", "True")
    assert stalled["reason"] == "PoolNotFound"
    assert f"{world.namespace}/shared" in stalled["message"]
    assert world.list("deploy") == []
    world.apply(pool())
    world.wait_ready(mixed_group())


def test_a_namespace_that_the_pool_does_not_allow(world: World, kubectl: Any) -> None:
    other = f"{world.namespace}-b"
    kubectl.run("create", "namespace", other)
    try:
        world.apply(pool())
        kubectl.apply(
            changed(mixed_group(), spec__poolRef={"name": "shared", "namespace": world.namespace}), namespace=other
        )
        there = World(kubectl, other)
        stalled = there.wait_condition("InferenceGroup", "qwen", "Stalled", "True")
        assert stalled["reason"] == "NamespaceNotAllowed"
        world.apply(pool(allowedNamespaces={"from": "All"}))
        there.wait_ready(mixed_group())
        world.wait_for(
            "the consumer to be listed",
            lambda: world.get("KVPool", "shared")["status"].get("consumers") == [f"{other}/qwen"],
        )
    finally:
        kubectl.run("delete", "namespace", other, "--wait=false")


EDITS: list[tuple[str, Object, str]] = [
    ("an unknown engine release", changed(group(), spec__engine__release="9.9"), "UnknownRelease"),
    ("a variable of the pool", changed(group(), spec__engine__env=[{"name": "PYTHONHASHSEED", "value": "1"}]),
     "ManagedVariable"),
    ("a pool that does not exist", changed(group(), spec__poolRef={"name": "nowhere"}), "PoolNotFound"),
]  # fmt: skip


@pytest.mark.parametrize("why, broken, reason", EDITS, ids=[row[0] for row in EDITS])
def test_a_bad_edit_disturbs_nothing_and_its_revert_recovers(
    world: World, why: str, broken: Object, reason: str
) -> None:
    world.apply(pool(), group())
    world.wait_ready(group())
    running = world.pods("prefill") | world.pods("decode")
    world.apply(broken)
    assert world.wait_condition("InferenceGroup", "qwen", "Stalled", "True")["reason"] == reason
    assert world.pods("prefill") | world.pods("decode") == running
    world.apply(group())
    world.wait_ready(group())
    assert world.pods("prefill") | world.pods("decode") == running


def test_a_bad_pool_edit_leaves_master_and_engines_alone(world: World) -> None:
    world.apply(pool(), group())
    world.wait_ready(pool(), group())
    pods = {p["metadata"]["uid"] for p in world.list("pods")}
    world.apply(pool(release="9.9"))
    assert world.wait_condition("KVPool", "shared", "Stalled", "True")["reason"] == "UnknownRelease"
    world.wait_for(
        "the group to say that its pool is broken",
        lambda: world.condition("InferenceGroup", "qwen", "Stalled").get("reason") == "PoolStalled",
    )
    assert {p["metadata"]["uid"] for p in world.list("pods")} == pods
    world.apply(pool())
    world.wait_ready(pool(), group())
    assert {p["metadata"]["uid"] for p in world.list("pods")} == pods


def test_what_the_api_server_refuses_in_a_child_is_said(world: World) -> None:
    bad = changed(mixed_group(), spec__roles__0__placement={"tolerations": [{"operator": "Maybe"}]})
    world.apply(pool(), bad)
    stalled = world.wait_condition("InferenceGroup", "qwen", "Stalled", "True")
    assert stalled["reason"] == "InvalidSpec"
    assert "Deployment qwen-mixed-" in stalled["message"]
    assert "Maybe" in stalled["message"]
    world.apply(mixed_group())
    world.wait_ready(mixed_group())


def test_an_edit_that_the_api_server_refuses_disturbs_nothing(world: World) -> None:
    world.apply(pool(), mixed_group())
    world.wait_ready(mixed_group())
    running = world.pods("mixed")
    world.apply(changed(mixed_group(), spec__roles__0__placement={"affinity": {"nodeAffinity": "near"}}))
    stalled = world.wait_condition("InferenceGroup", "qwen", "Stalled", "True")
    assert stalled["reason"] == "InvalidSpec"
    assert "nodeAffinity" in stalled["message"]
    assert world.pods("mixed") == running
    world.apply(mixed_group())
    world.wait_ready(mixed_group())
    assert world.pods("mixed") == running


def test_a_pause_writes_nothing_until_it_ends(world: World) -> None:
    world.apply(pool(), mixed_group())
    world.wait_ready(mixed_group())
    running = world.pods("mixed")
    paused = changed(mixed_group(), spec__paused=True, spec__engine__image="engine:2")
    world.apply(paused)
    world.wait_for("the pause to be said", lambda: world.condition("InferenceGroup", "qwen").get("reason") == "Paused")
    assert world.pods("mixed") == running
    world.apply(changed(paused, spec__paused=False))
    world.wait_for("the change to be made", lambda: running.isdisjoint(world.pods("mixed")))
    world.wait_ready(mixed_group())
