from __future__ import annotations

from typing import Any

import pytest

from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.pool import plan_pool
from kvpool_operator.plan.pool_status import plan_pool_status
from kvpool_operator.plan.status import Acted
from tests.support.live import NOW, built_pool, child, container, observed_pool, ready_workload
from tests.support.objects import changed, pool

BROKEN = [
    ("a series without that link", {"hardware": {"series": "A2", "link": "HCCS"}}, Reason.UNSUPPORTED_HARDWARE, "A2"),
    ("an unknown release", {"release": "9.9"}, Reason.UNKNOWN_RELEASE, "spec.release: '9.9'"),
    ("half a gibibyte on A3/HCCS", {"hardware": {"series": "A3", "link": "HCCS"}, "segment": {"size": "1536Mi"}},
     Reason.MISALIGNED_SEGMENT, "1073741824 and 2147483648"),
    ("evicting more than the watermark", {"mooncake": {"master": {"evictionPercent": 40,
     "evictionHighWatermarkPercent": 30}}}, Reason.UNSUPPORTED_COMBINATION, "evictionPercent"),
    ("a value the model does not know", {"segment": {"size": "1.5Gi"}}, Reason.INVALID_SPEC, "spec.segment.size"),
]  # fmt: skip


@pytest.mark.parametrize("why, spec, reason, fragment", BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_stalls_with_field_and_advice(
    why: str, spec: dict[str, Any], reason: Reason, fragment: str
) -> None:
    decision = plan_pool(observed_pool(pool(**spec)))
    assert decision.violation is not None
    assert decision.violation.reason is reason
    assert fragment in decision.violation.message
    assert decision.master is None


def test_clients_get_a_stable_name_and_plain_bytes() -> None:
    _, built = built_pool(pool("shared", segment={"size": "20Gi"}))
    data = child(built, "ConfigMap")["data"]
    assert data["MOONCAKE_MASTER"] == "shared-master-0.ml.svc:50088"
    assert data["MOONCAKE_GLOBAL_SEGMENT_SIZE"] == str(20 << 30)
    assert data["PYTHONHASHSEED"] == "0"


def test_no_rendered_object_knows_the_cluster_domain() -> None:
    _, built = built_pool(pool())
    assert "cluster.local" not in str(built.children)


def test_the_lease_outlasts_the_transfer_timeout_in_force() -> None:
    _, built = built_pool(pool())
    args = container(child(built, "StatefulSet"), "master")["args"]
    lease = next(int(a.split("=")[1]) for a in args if a.startswith("--default_kv_lease_ttl="))
    assert lease > 33_064


def test_ratios_are_rendered_without_rounding_noise() -> None:
    master = {"evictionHighWatermarkPercent": 87, "evictionPercent": 7}
    _, built = built_pool(pool(mooncake={"master": master}))
    args = container(child(built, "StatefulSet"), "master")["args"]
    assert "--eviction_high_watermark_ratio=0.87" in args
    assert "--eviction_ratio=0.07" in args


def test_the_master_is_ready_when_its_rpc_port_listens() -> None:
    _, built = built_pool(pool())
    assert container(child(built, "StatefulSet"), "master")["readinessProbe"]["tcpSocket"] == {"port": "rpc"}


def test_no_pod_gets_service_links() -> None:
    _, built = built_pool(pool())
    assert child(built, "StatefulSet")["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_placement_reaches_the_pods() -> None:
    placement = {"nodeSelector": {"x": "y"}, "tolerations": [{"operator": "Exists"}], "priorityClassName": "high"}
    _, built = built_pool(pool(placement=placement))
    spec = child(built, "StatefulSet")["spec"]["template"]["spec"]
    assert {name: spec[name] for name in placement} == placement


def _conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def test_a_new_pool_progresses_before_it_is_ready() -> None:
    observed = observed_pool(pool())
    status = plan_pool_status(observed, plan_pool(observed), Acted(), NOW)
    assert _conditions(status)["Ready"] == ("False", "Progressing")
    assert _conditions(status)["Reconciling"][0] == "True"


def test_a_ready_master_makes_the_pool_ready() -> None:
    _, built = built_pool(pool())
    observed = observed_pool(pool(), [ready_workload(child(built, "StatefulSet"))])
    status = plan_pool_status(observed, plan_pool(observed), Acted(), NOW)
    assert _conditions(status)["Ready"] == ("True", "Available")
    assert status["members"] == "1/1"
    assert status["endpoints"]["master"] == "shared-master-0.ml.svc:50088"


def test_a_violation_keeps_the_facts_of_what_runs() -> None:
    _, built = built_pool(pool())
    observed = observed_pool(pool(), [ready_workload(child(built, "StatefulSet"))])
    before = plan_pool_status(observed, plan_pool(observed), Acted(), NOW)
    broken = observed_pool({**changed(pool(), spec__release="9.9"), "status": before}, list(observed.children.values()))
    after = plan_pool_status(broken, plan_pool(broken), Acted(), NOW)
    assert after["endpoints"] == before["endpoints"]
    assert _conditions(after)["Stalled"] == ("True", "UnknownRelease")
    assert _conditions(after)["Ready"][0] == "False"


def test_a_pause_is_said() -> None:
    observed = observed_pool(pool(paused=True))
    status = plan_pool_status(observed, plan_pool(observed), Acted(paused=True), NOW)
    assert _conditions(status)["Ready"] == ("Unknown", "Paused")


def test_somebody_elses_object_is_named() -> None:
    observed = observed_pool(pool())
    status = plan_pool_status(observed, plan_pool(observed), Acted(foreign=("Service shared-master",)), NOW)
    conflict = next(c for c in status["conditions"] if c["type"] == "Conflict")
    assert conflict["status"] == "True"
    assert "Service shared-master" in conflict["message"]
