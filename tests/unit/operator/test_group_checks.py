from __future__ import annotations

from typing import Any

import pytest

from kvpool_operator.api.reasons import Reason
from kvpool_operator.plan.group import plan_group
from tests.support.live import DEFAULTS, live, observed_group
from tests.support.objects import Object, changed, group, mixed_group, pool

A2 = pool(hardware={"series": "A2", "link": "ROCE"}, segment={"size": "20Gi"})
NPU_ENGINE = {"image": "engine:1", "release": "0.23.0"}


def _roles(prefill: int, decode: int) -> list[dict[str, Any]]:
    return [
        {"name": "prefill", "type": "Prefill", "parallelism": {"tensor": prefill}},
        {"name": "decode", "type": "Decode", "parallelism": {"tensor": decode}},
    ]


def _env(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


BROKEN: list[tuple[str, Object, Object | None, Reason, str]] = [
    ("no such pool", group(), None, Reason.POOL_NOT_FOUND, "no KVPool ml/shared"),
    ("the pool itself is broken", group(), pool(release="9"), Reason.POOL_STALLED, "spec.release"),
    ("an unknown engine release", changed(group(), spec__engine__release="0.1"), pool(), Reason.UNKNOWN_RELEASE,
     "spec.engine.release: '0.1'"),
    ("a release without vllm-ascend on NPUs", group(), A2, Reason.UNKNOWN_RELEASE, "0.32.0"),
    ("AscendStore without NPUs", group(engine={**NPU_ENGINE, "connector": "AscendStore"}), pool(),
     Reason.CONNECTOR_UNSUPPORTED, "needs NPUs"),
    ("P2P with Native", group(kv={"transfer": "P2P"}), pool(), Reason.UNSUPPORTED_COMBINATION, "spec.kv.transfer"),
    ("unequal sizes through the pool", group(roles=_roles(2, 1)), pool(), Reason.UNSUPPORTED_COMBINATION,
     "use kv.transfer P2P"),
    ("prefill smaller than decode", group(engine=NPU_ENGINE, roles=_roles(4, 8)), A2, Reason.UNSUPPORTED_COMBINATION,
     "below decode's 8"),
    ("more devices than a node has", group(engine=NPU_ENGINE, roles=_roles(16, 16)), A2, Reason.UNSUPPORTED_COMBINATION,
     "has 8"),
    ("a role's segment off the grid", changed(mixed_group(engine=NPU_ENGINE), spec__roles__0__segmentSize="512Mi"), A2,
     Reason.MISALIGNED_SEGMENT, "spec.roles[mixed].segmentSize"),
    ("a hash seed by hand", changed(group(), spec__engine__env=[_env("PYTHONHASHSEED", "random")]), pool(),
     Reason.MANAGED_ENV, "spec.engine.env: PYTHONHASHSEED"),
    ("a master by hand", changed(group(), spec__roles__1__env=[_env("MOONCAKE_MASTER", "10.0.0.9:1")]), pool(),
     Reason.MANAGED_ENV, "spec.roles[decode].env"),
    ("a second kv-transfer-config", changed(group(), spec__engine__args=["--kv-transfer-config={}"]), pool(),
     Reason.MANAGED_ARGUMENT, "spec.kv"),
    ("a second tensor size", changed(group(), spec__roles__0__args=["--tensor-parallel-size", "4"]), pool(),
     Reason.MANAGED_ARGUMENT, "parallelism.tensor"),
]  # fmt: skip


@pytest.mark.parametrize("why, obj, used_pool, reason, fragment", BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_stalls_with_field_and_advice(
    why: str, obj: Object, used_pool: Object | None, reason: Reason, fragment: str
) -> None:
    decision = plan_group(observed_group(obj, used_pool), DEFAULTS)
    assert decision.violation is not None
    assert decision.violation.reason is reason, decision.violation
    assert fragment in decision.violation.message
    assert decision.roles == ()


ALLOWED: list[tuple[str, dict[str, Any] | None, dict[str, str] | None, bool]] = [
    ("same is the default", None, None, False),
    ("same", {"from": "Same"}, None, False),
    ("all", {"from": "All"}, None, True),
    ("labels match", {"from": "Selector", "selector": {"matchLabels": {"t": "a"}}}, {"t": "a", "u": "b"}, True),
    ("labels differ", {"from": "Selector", "selector": {"matchLabels": {"t": "a"}}}, {"t": "b"}, False),
    ("labels unknown", {"from": "Selector", "selector": {"matchLabels": {"t": "a"}}}, None, False),
]


@pytest.mark.parametrize("why, allowed, labels, usable", ALLOWED, ids=[row[0] for row in ALLOWED])
def test_a_pool_is_usable_only_where_it_allows(
    why: str, allowed: dict[str, Any] | None, labels: dict[str, str] | None, usable: bool
) -> None:
    other = pool(allowedNamespaces=allowed) if allowed else pool()
    observed = observed_group(changed(group(), spec__poolRef={"name": "shared", "namespace": "stores"}), None)
    observed = type(observed)(
        group=observed.group, children={}, pool=live(other, namespace="stores"), namespace_labels=labels
    )
    violation = plan_group(observed, DEFAULTS).violation
    assert (violation is None) is usable
    assert violation is None or violation.reason is Reason.NAMESPACE_NOT_ALLOWED
