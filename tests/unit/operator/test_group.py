from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvpool_connector.contract import EngineContract, render_kv_transfer_config
from kvpool_operator.build.group import build_group
from kvpool_operator.plan.group import plan_group
from kvpool_operator.plan.group_status import plan_group_status
from kvpool_operator.plan.roles import plan_role_patch
from kvpool_operator.plan.status import Acted
from tests.support.live import (
    DEFAULTS,
    NOW,
    built_group,
    child,
    container,
    env_of,
    live,
    observed_group,
    ready_workload,
)
from tests.support.objects import Object, changed, group, mixed_group, pool

A2 = pool(hardware={"series": "A2", "link": "ROCE"}, segment={"size": "20Gi"})
TP8 = [
    {"name": "prefill", "type": "Prefill", "parallelism": {"tensor": 8}},
    {"name": "decode", "type": "Decode", "parallelism": {"tensor": 8}},
]
NPU_GROUP = group(engine={"image": "engine:1", "release": "0.23.0"}, roles=TP8)


def test_every_engine_of_a_group_gets_the_same_identity() -> None:
    _, built = built_group(group(), pool())
    prefill, decode = (env_of(child(built, "Deployment", f"qwen-{role}")) for role in ("prefill", "decode"))
    shared = ("PYTHONHASHSEED", "MOONCAKE_MASTER", "KVPOOL_HASH_ALGORITHM", "KVPOOL_BLOCK_SIZE", "KVPOOL_KEY_NAMESPACE")
    assert {name: prefill[name] for name in shared} == {name: decode[name] for name in shared}


def test_the_launcher_reads_back_the_contract_that_the_operator_wrote() -> None:
    _, built = built_group(NPU_GROUP, A2)
    contract = EngineContract.from_environ(env_of(child(built, "Deployment", "qwen-decode")))
    config = render_kv_transfer_config(contract)
    first, second = config["kv_connector_extra_config"]["connectors"]
    assert config["kv_connector"] == "MultiConnector"
    assert config["kv_load_failure_policy"] == "recompute"
    assert first["kv_connector"] == "MooncakeConnectorV1"
    assert first["kv_connector_extra_config"]["prefill"] == {"dp_size": 1, "tp_size": 8}
    assert second["kv_connector"] == "AscendStoreConnector"


def test_the_transfer_port_is_above_those_of_the_transfer_engine() -> None:
    _, built = built_group(NPU_GROUP, A2)
    contract = EngineContract.from_environ(env_of(child(built, "Deployment", "qwen-prefill")))
    assert contract.p2p is not None
    assert contract.p2p.kv_port >= 20_000 + 8 * 1_000


def test_pods_ask_for_their_devices() -> None:
    _, built = built_group(NPU_GROUP, A2)
    resources = container(child(built, "Deployment", "qwen-prefill"), "engine")["resources"]
    assert resources["limits"]["huawei.com/Ascend910"] == "8"
    assert resources["requests"]["huawei.com/Ascend910"] == "8"


def test_the_resource_name_is_the_clusters_own() -> None:
    named = changed(A2, spec__hardware__resourceName="huawei.com/ascend-1980")
    _, built = built_group(NPU_GROUP, named)
    limits = container(child(built, "Deployment", "qwen-prefill"), "engine")["resources"]["limits"]
    assert limits == {"huawei.com/ascend-1980": "8"}


def test_memory_for_the_pool_is_requested_where_the_user_says_nothing() -> None:
    _, built = built_group(NPU_GROUP, A2)
    requests = container(child(built, "Deployment", "qwen-prefill"), "engine")["resources"]["requests"]
    assert requests["memory"] == f"{8 * (20 + 1) + 16}Gi"


def test_our_variables_come_before_the_users_and_no_name_twice() -> None:
    custom = changed(
        group(),
        spec__engine__env=[{"name": "ADDRESS", "value": "$(POD_IP):1"}, {"name": "LEVEL", "value": "1"}],
        spec__roles__1__env=[{"name": "LEVEL", "value": "2"}],
    )
    _, built = built_group(custom, pool())
    names = [v["name"] for v in container(child(built, "Deployment", "qwen-decode"), "engine")["env"]]
    assert names.index("POD_IP") < names.index("ADDRESS")
    assert len(names) == len(set(names))
    assert env_of(child(built, "Deployment", "qwen-decode"))["LEVEL"] == "2"
    assert env_of(child(built, "Deployment", "qwen-prefill"))["LEVEL"] == "1"


def test_every_value_of_a_variable_is_text() -> None:
    _, built = built_group(NPU_GROUP, A2)
    values = [
        v["value"] for v in container(child(built, "Deployment", "qwen-prefill"), "engine")["env"] if "value" in v
    ]
    assert all(isinstance(value, str) for value in values)


def test_decode_looks_the_pool_up_when_kv_goes_through_it() -> None:
    _, built = built_group(group(), pool())
    contract = EngineContract.from_environ(env_of(child(built, "Deployment", "qwen-decode")))
    extra = render_kv_transfer_config(contract)["kv_connector_extra_config"]
    assert extra["consumer_is_to_load"] is True
    assert "consumer_is_to_put" not in extra


def test_hybrid_models_fail_instead_of_recomputing() -> None:
    _, built = built_group(changed(group(), spec__model__attention="Hybrid"), pool())
    assert env_of(child(built, "Deployment", "qwen-decode"))["KVPOOL_LOAD_FAILURE_POLICY"] == "Fail"


def test_services_carry_what_the_router_reads_from_slices() -> None:
    decision, built = built_group(group(), pool())
    labels = child(built, "Service", "qwen-decode")["metadata"]["labels"]
    wanted = {
        "kvpool.dev/group": "qwen",
        "kvpool.dev/role": "decode",
        "kvpool.dev/role-type": "Decode",
        "kvpool.dev/pairing": decision.pairing,
    }
    assert {name: labels[name] for name in wanted} == wanted


def test_a_mixed_group_has_one_leg() -> None:
    _, built = built_group(mixed_group(), pool())
    assert "--transfer=Mixed" in container(child(built, "Deployment", "qwen-router"), "router")["args"]


@pytest.mark.parametrize("kind", ["External", "None"])
def test_a_group_may_do_without_our_router(kind: str) -> None:
    _, built = built_group(group(router={"type": kind}), pool())
    assert not [c for c in built.children if c["metadata"]["name"].startswith("qwen-router")]


RESTARTS = [
    ("a label of the group", {"metadata__labels": {"a": "b"}}, set()),
    ("replicas of a role", {"spec__roles__0__replicas": 3}, set()),
    ("initial replicas", {"spec__roles__0__initialReplicas": 3}, set()),
    ("replicas of the router", {"spec__router": {"replicas": 3}}, set()),
    ("a variable of one role", {"spec__roles__1__env": [{"name": "A", "value": "1"}]}, {"decode"}),
    ("an image of one role", {"spec__roles__0__image": "engine:2"}, {"prefill"}),
    ("an engine argument", {"spec__engine__args": ["--x"]}, {"prefill", "decode"}),
    ("an empty list written out", {"spec__engine__env": None}, set()),
]


@pytest.mark.parametrize("why, change, roles", RESTARTS, ids=[row[0] for row in RESTARTS])
def test_a_change_restarts_exactly_the_pods_whose_inputs_changed(
    why: str, change: dict[str, Any], roles: set[str]
) -> None:
    before, _ = built_group(group(), pool())
    after, _ = built_group(changed(group(), **change), pool())
    assert before.pairing == after.pairing
    old = {role.spec.name: role.digest for role in before.roles}
    assert {role.spec.name for role in after.roles if role.digest != old[role.spec.name]} == roles


PAIRINGS: list[tuple[str, Object, Object, bool]] = [
    ("an image", changed(group(), spec__engine__image="engine:2"), pool(), False),
    ("the pool's segment", group(), pool(segment={"size": "512Mi"}), False),
    ("the model's revision", changed(group(), spec__model__revision="2"), pool(), True),
    ("the block size", group(), pool(identity={"blockSize": 64}), True),
    ("the hash seed", group(), pool(identity={"hashSeed": "7"}), True),
    ("the parallel sizes", group(roles=[{**r, "parallelism": {"tensor": 2}} for r in group()["spec"]["roles"]]), pool(),
     True),
    ("the engine release", changed(group(), spec__engine__release="0.23.0"), pool(), True),
]  # fmt: skip


@pytest.mark.parametrize("why, obj, used, changes", PAIRINGS, ids=[row[0] for row in PAIRINGS])
def test_the_pairing_revision_changes_with_what_goes_over_the_wire(
    why: str, obj: Object, used: Object, changes: bool
) -> None:
    before, _ = built_group(group(), pool())
    after, _ = built_group(obj, used)
    assert (before.pairing != after.pairing) is changes


def test_a_new_operator_version_changes_no_running_template() -> None:
    _, first = built_group(group(), pool())
    stored = [live(c) for c in first.children if c["kind"] == "ControllerRevision"]
    newer = replace(DEFAULTS, connector_image="connector:2", router_image="router:2")
    _, second = built_group(group(), pool(), stored, newer)
    for prefix in ("qwen-prefill", "qwen-decode", "qwen-router"):
        assert child(first, "Deployment", prefix) == child(second, "Deployment", prefix)
    assert set(second.outdated) == {"prefill", "decode", "router"}


def test_the_next_spec_change_takes_the_new_rendering() -> None:
    _, first = built_group(group(), pool())
    stored = [live(c) for c in first.children if c["kind"] == "ControllerRevision"]
    newer = replace(DEFAULTS, connector_image="connector:2")
    edited = changed(group(), spec__roles__1__env=[{"name": "A", "value": "1"}])
    _, second = built_group(edited, pool(), stored, newer)
    assert container(child(second, "Deployment", "qwen-decode"), "carrier")["image"] == "connector:2"
    assert container(child(second, "Deployment", "qwen-prefill"), "carrier")["image"] == "connector:1"
    assert second.outdated == ("prefill",)


def test_the_upgrade_annotation_applies_the_new_rendering() -> None:
    before, _ = built_group(group(), pool())
    after, _ = built_group(changed(group(), metadata__annotations={"kvpool.dev/upgrade": "1"}), pool())
    assert before.pairing == after.pairing
    assert {r.digest for r in before.roles}.isdisjoint({r.digest for r in after.roles})


REPLICAS: list[tuple[str, dict[str, Any], list[Object], int]] = [
    ("one by default", {}, [], 1),
    ("initialReplicas seed a new role", {"initialReplicas": 3}, [], 3),
    ("zero is a number", {"initialReplicas": 0}, [], 0),
    ("the group's number wins", {"replicas": 2}, [{"replicas": 5}], 2),
    ("the role's own number is the truth", {"initialReplicas": 3}, [{"replicas": 5}], 5),
]


@pytest.mark.parametrize("why, spec, roles, wanted", REPLICAS, ids=[row[0] for row in REPLICAS])
def test_who_decides_the_replicas(why: str, spec: dict[str, Any], roles: list[Object], wanted: int) -> None:
    obj = mixed_group(roles=[{"name": "mixed", "type": "Mixed", **spec}])
    existing = [live({"kind": "InferenceRole", "metadata": {"name": "qwen-mixed"}, "spec": r}) for r in roles]
    decision = plan_group(observed_group(obj, pool(), existing), DEFAULTS)
    assert decision.roles[0].replicas == wanted


def test_a_role_deleted_by_hand_comes_back_with_what_its_engines_run() -> None:
    _, built = built_group(mixed_group(), pool())
    engine = live(child(built, "Deployment", "qwen-mixed"))
    engine["spec"]["replicas"] = 4
    assert plan_group(observed_group(mixed_group(), pool(), [engine]), DEFAULTS).roles[0].replicas == 4


PATCHES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any] | None]] = [
    ("its own number is never written", {}, {"replicas": 5}, None),
    ("a fixed number is written with its claim", {"replicas": 2}, {"replicas": 5}, {"replicas": 2, "groupReplicas": 2}),
    ("a kept number costs nothing", {"replicas": 2}, {"replicas": 2, "groupReplicas": 2}, None),
    ("a released number loses its claim", {}, {"replicas": 2, "groupReplicas": 2}, {"groupReplicas": None}),
]


@pytest.mark.parametrize("why, spec, existing, change", PATCHES, ids=[row[0] for row in PATCHES])
def test_ownership_of_replicas(
    why: str, spec: dict[str, Any], existing: dict[str, Any], change: dict[str, Any] | None
) -> None:
    obj = mixed_group(roles=[{"name": "mixed", "type": "Mixed", **spec}])
    stored = live({"kind": "InferenceRole", "metadata": {"name": "qwen-mixed"}, "spec": existing})
    decision = plan_group(observed_group(obj, pool(), [stored]), DEFAULTS)
    patch = plan_role_patch(decision.roles[0], stored)
    assert (patch and patch["spec"]) == change
    assert patch is None or patch["metadata"]["resourceVersion"] == "1"


def _old_pair() -> tuple[list[Object], Object]:
    """Ready engines of a group, and the group after an edit that alters the pairing revision."""
    _, built = built_group(group(), pool())
    old = [c for c in built.children if c["kind"] in ("Deployment", "Service")]
    stored = [ready_workload(c) if c["kind"] == "Deployment" else live(c) for c in old]
    return stored, changed(group(), spec__model__revision="2")


def test_old_pairs_stay_until_new_ones_are_ready() -> None:
    old, edited = _old_pair()
    engines = {(c["kind"], c["metadata"]["name"]) for c in old if "router" not in c["metadata"]["name"]}
    decision = plan_group(observed_group(edited, pool(), old), DEFAULTS)
    assert decision.retained == engines

    observed = observed_group(edited, pool(), old)
    new = [c for c in build_group(observed, decision).children if c["kind"] == "Deployment"]
    half = [*old, ready_workload(child_of(new, "qwen-prefill")), live(child_of(new, "qwen-decode"))]
    assert plan_group(observed_group(edited, pool(), half), DEFAULTS).retained == engines

    whole = [*old, *(ready_workload(child_of(new, name)) for name in ("qwen-prefill", "qwen-decode"))]
    assert plan_group(observed_group(edited, pool(), whole), DEFAULTS).retained == frozenset()


def child_of(objects: list[dict[str, Any]], prefix: str) -> dict[str, Any]:
    return next(o for o in objects if o["metadata"]["name"].startswith(prefix))


def _status(obj: Object, children: list[Any], **more: Any) -> dict[str, Any]:
    observed = observed_group(obj, pool(), children, **more)
    decision = plan_group(observed, DEFAULTS)
    return plan_group_status(observed, decision, {}, Acted(), NOW)


def _ready_condition(status: dict[str, Any]) -> tuple[str, str, str]:
    found = next(c for c in status["conditions"] if c["type"] == "Ready")
    return found["status"], found["reason"], found["message"]


def _ready_children(obj: Object) -> list[Any]:
    _, built = built_group(obj, pool())
    return [
        *(live(role) for role in built.roles),
        *(ready_workload(c) if c["kind"] == "Deployment" else live(c) for c in built.children),
    ]


def test_a_group_is_ready_when_every_role_and_the_router_are() -> None:
    status = _status(group(), _ready_children(group()))
    assert _ready_condition(status)[:2] == ("True", "Available")
    assert status["summary"] == "prefill 1/1, decode 1/1"
    assert status["url"] == "http://qwen-router.ml.svc:8000"


def test_a_converged_group_gets_the_same_status_at_any_time() -> None:
    children = _ready_children(group())
    first = _status(group(), children)
    observed = observed_group({**group(), "status": first}, pool(), children)
    again = plan_group_status(observed, plan_group(observed, DEFAULTS), {}, Acted(), "2030-01-01T00:00:00Z")
    assert again == first


def test_a_role_at_zero_is_said_and_is_not_an_error() -> None:
    obj = changed(group(), spec__roles__1__replicas=0)
    status, reason, message = _ready_condition(_status(obj, _ready_children(obj)))
    assert (status, reason) == ("False", "ScaledToZero")
    assert "decode" in message


def test_what_a_pod_complains_of_reaches_the_condition() -> None:
    status = _status(group(), [], troubles={"decode": "0/4 nodes are available: Insufficient huawei.com/Ascend910"})
    assert "Insufficient huawei.com/Ascend910" in _ready_condition(status)[2]
