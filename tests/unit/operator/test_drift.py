from __future__ import annotations

from typing import Any

import pytest

from kvpool_operator.plan.drift import first_difference

SAME = [
    ("server defaults are not drift", {"a": 1}, {"a": 1, "added": 2}),
    ("a list map is compared by key", {"env": [{"name": "A", "value": "1"}]},
     {"env": [{"name": "SIDECAR", "value": "x"}, {"name": "A", "value": "1"}]}),
    ("ports are compared by number", {"ports": [{"containerPort": 80, "name": "x"}]},
     {"ports": [{"containerPort": 80, "name": "x", "protocol": "TCP"}]}),
    ("1000m is 1", {"resources": {"requests": {"cpu": "1000m"}}}, {"resources": {"requests": {"cpu": "1"}}}),
    ("20480Mi is 20Gi", {"limits": {"memory": "20480Mi"}}, {"limits": {"memory": "20Gi"}}),
    ("a number of devices comes back as text", {"limits": {"huawei.com/Ascend910": 8}},
     {"limits": {"huawei.com/Ascend910": "8"}}),
    ("an empty value is not stored", {"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}),
    ("an empty map is not stored", {"emptyDir": {}, "name": "x"}, {"name": "x"}),
    ("a null says nothing", {"a": None}, {}),
]  # fmt: skip
DIFFERENT = [
    ("a changed value", {"a": 1}, {"a": 2}, ".a"),
    ("a missing member", {"a": {"b": 1}}, {"a": {}}, ".a.b"),
    ("a missing item of a list map", {"env": [{"name": "A", "value": "1"}]}, {"env": []}, ".env[0]"),
    ("a changed item", {"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}, ".env[0].value"),
    ("an atomic list with one more", {"args": ["a"]}, {"args": ["a", "b"]}, ".args"),
    ("an atomic list in another order", {"args": ["a", "b"]}, {"args": ["b", "a"]}, ".args[0]"),
    ("another quantity", {"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "2"}}},
     ".resources.requests.cpu"),
    ("quantities only count where they are quantities", {"value": "1000m"}, {"value": "1"}, ".value"),
    ("replicas 0 against 2", {"replicas": 0}, {"replicas": 2}, ".replicas"),
]  # fmt: skip


@pytest.mark.parametrize("why, desired, observed", SAME, ids=[row[0] for row in SAME])
def test_what_is_contained_has_not_drifted(why: str, desired: Any, observed: Any) -> None:
    assert first_difference(desired, observed) is None


@pytest.mark.parametrize("why, desired, observed, path", DIFFERENT, ids=[row[0] for row in DIFFERENT])
def test_drift_is_found_and_named(why: str, desired: Any, observed: Any, path: str) -> None:
    assert first_difference(desired, observed) == path
