"""Create, scale, change, delete: what a user does, on a real API server with simulated Ascend nodes."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import World
from tests.support.objects import Object, changed, group, mixed_group, pool

pytestmark = pytest.mark.cluster

A2 = pool(hardware={"series": "A2", "link": "ROCE"}, segment={"size": "20Gi"})
NPU_ENGINE = {"image": "engine:1", "release": "0.23.0"}
TP8 = {"parallelism": {"tensor": 8}}
SPLIT = group(
    engine=NPU_ENGINE,
    roles=[{"name": "prefill", "type": "Prefill", **TP8}, {"name": "decode", "type": "Decode", **TP8}],
)
HARDWARE = [("A2", "ROCE"), ("A3", "ROCE"), ("A3", "HCCS"), ("A5", "UB"), ("A5", "UBOE"), ("CPU", "TCP")]


@pytest.mark.parametrize("series, link", HARDWARE, ids=lambda value: value)
def test_a_pool_and_a_group_become_ready_on_every_hardware_row(world: World, series: str, link: str) -> None:
    used = pool(hardware={"series": series, "link": link}, segment={"size": "20Gi"})
    obj = SPLIT if series != "CPU" else group()
    world.apply(used, obj)
    world.wait_ready(used, obj)
    assert world.get("KVPool", "shared")["status"]["consumers"] == [f"{world.namespace}/qwen"]


def test_devices_are_taken_from_the_nodes(world: World) -> None:
    world.apply(A2, SPLIT)
    world.wait_ready(SPLIT)
    pods = [p for role in ("prefill", "decode") for p in world.list("pods", f"kvpool.dev/role={role}")]
    limits = {p["spec"]["containers"][0]["resources"]["limits"]["huawei.com/Ascend910"] for p in pods}
    assert limits == {"8"}


def test_a_role_is_scaled_alone(world: World) -> None:
    world.apply(A2, SPLIT)
    world.wait_ready(SPLIT)
    prefill, decode = world.pods("prefill"), world.pods("decode")
    world.run("scale", "ir/qwen-decode", "--replicas=3")
    world.wait_for("three decode pods", lambda: len(world.pods("decode")) == 3)
    world.wait_ready(SPLIT)
    assert world.pods("prefill") == prefill
    assert decode < world.pods("decode")
    assert world.get("InferenceRole", "qwen-decode")["status"]["readyReplicas"] == 3
    assert "decode 3/3" in world.get("InferenceGroup", "qwen")["status"]["summary"]


def test_a_scaled_role_survives_a_new_apply_of_the_group(world: World) -> None:
    world.apply(A2, SPLIT)
    world.wait_ready(SPLIT)
    world.run("scale", "ir/qwen-decode", "--replicas=2")
    world.wait_for("two decode pods", lambda: len(world.pods("decode")) == 2)
    world.apply(changed(SPLIT, metadata__labels={"edited": "yes"}))
    world.run("annotate", "ig/qwen", "touched=yes")
    world.wait_ready(SPLIT)
    assert world.get("InferenceRole", "qwen-decode")["spec"]["replicas"] == 2


def test_a_number_fixed_by_the_group_is_defended_at_the_scale_endpoint(world: World) -> None:
    fixed = changed(mixed_group(), spec__roles__0__replicas=2)
    world.apply(pool(), fixed)
    world.wait_ready(fixed)
    refusal = world.kubectl.refusal("-n", world.namespace, "scale", "ir/qwen-mixed", "--replicas=5")
    assert "spec.roles[].replicas" in refusal
    world.apply(changed(mixed_group(), spec__roles__0__initialReplicas=1))
    world.wait_for(
        "the claim to be released",
        lambda: "groupReplicas" not in world.get("InferenceRole", "qwen-mixed")["spec"],
    )
    world.run("scale", "ir/qwen-mixed", "--replicas=3")
    world.wait_for("three pods", lambda: len(world.pods("mixed")) == 3)


def test_a_role_deleted_by_hand_keeps_its_number(world: World) -> None:
    world.apply(pool(), mixed_group())
    world.wait_ready(mixed_group())
    world.run("scale", "ir/qwen-mixed", "--replicas=3")
    world.wait_for("three pods", lambda: len(world.pods("mixed")) == 3)
    pods = world.pods("mixed")
    world.run("delete", "ir/qwen-mixed")
    world.wait_for("the role to come back", lambda: [r["spec"]["replicas"] for r in world.list("ir")] == [3])
    world.wait_ready(mixed_group())
    assert world.pods("mixed") == pods


CHANGES: list[tuple[str, Object, set[str]]] = [
    ("a variable of decode", changed(group(), spec__roles__1__env=[{"name": "A", "value": "1"}]), {"decode"}),
    ("the engine's image", changed(group(), spec__engine__image="engine:2"), {"prefill", "decode"}),
    ("a label of the group", changed(group(), metadata__labels={"a": "b"}), set()),
    ("a timeout of the router", changed(group(), spec__router={"queueTimeoutSeconds": 5}), set()),
]


@pytest.mark.parametrize("why, after, restarted", CHANGES, ids=[row[0] for row in CHANGES])
def test_a_change_restarts_exactly_the_right_pods(world: World, why: str, after: Object, restarted: set[str]) -> None:
    world.apply(pool(), group())
    world.wait_ready(group())
    before = {role: world.pods(role) for role in ("prefill", "decode")}
    world.apply(after)
    world.wait_ready(after)
    now = {role: world.pods(role) for role in ("prefill", "decode")}
    assert {role for role in now if now[role].isdisjoint(before[role])} == restarted
    assert {role for role in now if now[role] == before[role]} == set(before) - restarted


def test_a_segment_of_the_pool_restarts_its_engines_and_not_its_master(world: World) -> None:
    world.apply(pool(), group())
    world.wait_ready(pool(), group())
    engines = world.pods("prefill") | world.pods("decode")
    master = {p["metadata"]["uid"] for p in world.list("pods", "kvpool.dev/pool=shared")}
    world.apply(pool(segment={"size": "512Mi"}))
    world.wait_for(
        "all engines to be replaced", lambda: engines.isdisjoint(world.pods("prefill") | world.pods("decode"))
    )
    world.wait_ready(group())
    assert {p["metadata"]["uid"] for p in world.list("pods", "kvpool.dev/pool=shared")} == master


def test_an_edit_of_what_goes_over_the_wire_brings_a_new_pair_beside_the_old(world: World) -> None:
    world.apply(pool(), group())
    world.wait_ready(group())
    old = {d["metadata"]["name"] for d in world.list("deploy", "app.kubernetes.io/component=engine")}
    edited = changed(group(), spec__model__revision="2")
    world.apply(edited)
    world.wait_for(
        "only engines of the new pairing revision",
        lambda: (
            len(found := {d["metadata"]["name"] for d in world.list("deploy", "app.kubernetes.io/component=engine")})
            == 2
            and found.isdisjoint(old)
        ),
    )
    world.wait_ready(edited)
    assert {s["metadata"]["name"] for s in world.list("svc", "app.kubernetes.io/component=engine")}.isdisjoint(old)


def test_mixed_becomes_split_and_mixed_again(world: World) -> None:
    world.apply(pool(), mixed_group())
    world.wait_ready(mixed_group())
    world.apply(group())
    world.wait_ready(group())
    world.wait_for(
        "two roles", lambda: {r["metadata"]["name"] for r in world.list("ir")} == {"qwen-prefill", "qwen-decode"}
    )
    world.apply(mixed_group())
    world.wait_ready(mixed_group())
    world.wait_for("one role", lambda: {r["metadata"]["name"] for r in world.list("ir")} == {"qwen-mixed"})
    world.wait_for(
        "one engine Deployment", lambda: len(world.list("deploy", "app.kubernetes.io/component=engine")) == 1
    )


def test_a_removed_variable_and_label_disappear_from_children(world: World) -> None:
    """The first apply after a POST must own what the POST set, or nothing would ever be removed."""
    more = changed(mixed_group(), spec__roles__0__env=[{"name": "GONE", "value": "1"}])
    world.apply(pool(), more)
    world.wait_ready(more)
    world.apply(mixed_group())

    def engine() -> str:
        return str(world.list("deploy", "app.kubernetes.io/component=engine"))

    world.wait_for("the variable to go", lambda: "GONE" not in engine())
    world.wait_ready(mixed_group())


KINDS = "deploy,sts,svc,cm,sa,role,rolebinding,controllerrevision,ir,pods"


def test_deletion_leaves_nothing(world: World) -> None:
    world.apply(pool(), group())
    world.wait_ready(pool(), group())
    world.run("delete", "ig/qwen", "kvp/shared")

    def left() -> list[str]:
        found = world.kubectl.get_json(KINDS, None, world.namespace)["items"]
        own = ("default", "kube-root-ca.crt")
        return [f"{o['kind']}/{o['metadata']['name']}" for o in found if o["metadata"]["name"] not in own]

    world.wait_for("nothing to be left", lambda: not left(), seconds=60)


def test_a_group_that_does_not_fit_says_what_is_missing(world: World) -> None:
    obj = changed(SPLIT, spec__roles__0__initialReplicas=40)
    world.apply(A2, obj)
    world.wait_for(
        "the scheduler's words in the condition",
        lambda: "Insufficient huawei.com/Ascend910" in world.condition("InferenceGroup", "qwen").get("message", ""),
        seconds=60,
    )
