from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpool_router.targets import BadTargets, Phase, RoleType, endpoints_from_slices, endpoints_from_static


def endpoint(address: str = "10.0.0.1", pod: str = "pod-a", uid: str = "uid-a", **conditions: Any) -> Any:
    return {
        "addresses": [address] if address else [],
        "conditions": conditions,
        "targetRef": {"kind": "Pod", "name": pod, "uid": uid},
    }


def piece(*endpoints: Any, ports: tuple[int, ...] = (8000,), role_type: str = "Decode", pairing: str = "r1") -> Any:
    labels = {
        "kvpool.dev/group": "qwen", "kvpool.dev/role-type": role_type, "kvpool.dev/role": role_type.lower(),
        "kvpool.dev/pairing": pairing, "kvpool.dev/slot": "0",
    }  # fmt: skip
    return {
        "metadata": {"name": "slice", "labels": labels},
        "ports": [{"name": f"api-{rank}", "port": port} for rank, port in enumerate(ports)],
        "endpoints": list(endpoints),
    }


@pytest.mark.parametrize(
    "conditions, phase",
    [
        ({"ready": True, "serving": True, "terminating": False}, Phase.READY),
        ({"ready": False, "serving": False, "terminating": False}, Phase.NOT_READY),
        ({"ready": False, "serving": True, "terminating": True}, Phase.TERMINATING),
        ({"ready": False, "serving": False, "terminating": True}, Phase.TERMINATING),
        # publishNotReadyAddresses says ready for every pod; serving tells the truth
        ({"ready": True, "serving": False, "terminating": False}, Phase.NOT_READY),
        ({"ready": True}, Phase.READY),
        ({"ready": False}, Phase.NOT_READY),
        ({}, Phase.READY),
        ({"ready": None, "serving": None, "terminating": None}, Phase.READY),
    ],
)
def test_the_phase_follows_serving_and_terminating(conditions: dict[str, Any], phase: Phase) -> None:
    [found] = endpoints_from_slices([piece(endpoint(**conditions))])
    assert found.phase is phase


def test_c016_c074_every_rank_of_every_pod_is_a_target() -> None:
    prefill = piece(
        endpoint("10.0.0.1", "p0", "u0"), endpoint("10.0.0.2", "p1", "u1"), ports=(7100, 7101), role_type="Prefill"
    )
    decode = piece(endpoint("10.0.1.1", "d0", "u2"), endpoint("10.0.1.2", "d1", "u3"), ports=tuple(range(7100, 7116)))
    found = endpoints_from_slices([prefill, decode])
    by_role = {role: [e for e in found if e.role_type is role] for role in RoleType}
    assert [len(by_role[role]) for role in RoleType] == [4, 32, 0]
    assert {(e.pod, e.rank, e.port) for e in by_role[RoleType.PREFILL]} == {
        ("p0", 0, 7100), ("p0", 1, 7101), ("p1", 0, 7100), ("p1", 1, 7101),
    }  # fmt: skip


@pytest.mark.parametrize(
    "address, url",
    [("10.0.0.1", "http://10.0.0.1:8000"), ("fd00:10:244::12", "http://[fd00:10:244::12]:8000")],
)
def test_c063_an_ipv6_address_gets_brackets(address: str, url: str) -> None:
    [found] = endpoints_from_slices([piece(endpoint(address))])
    assert found.url == url


def test_c109_an_endpoint_without_an_address_is_no_target() -> None:
    assert endpoints_from_slices([piece(endpoint(""))]) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "s"}},
        {"metadata": {"name": "s", "labels": {"kvpool.dev/role-type": "Storage"}}},
        {"ports": [{"name": "metrics", "port": 9090}, {"name": "api-x", "port": 1}, {"name": None, "port": 2}]},
        {"ports": None},
        {"endpoints": None},
    ],
)
def test_a_slice_that_says_nothing_of_an_engine_is_passed_over(change: dict[str, Any]) -> None:
    assert endpoints_from_slices([piece(endpoint()) | change]) == ()


@pytest.mark.parametrize(
    "first, second, phase",
    [
        ({"serving": False}, {"serving": True}, Phase.READY),
        ({"serving": True}, {"serving": True, "terminating": True}, Phase.TERMINATING),
        ({"serving": True, "terminating": True}, {"serving": True}, Phase.TERMINATING),
    ],
)
def test_a_pod_in_two_slices_is_one_target(first: dict[str, Any], second: dict[str, Any], phase: Phase) -> None:
    [found] = endpoints_from_slices([piece(endpoint(**first)), piece(endpoint(**second))])
    assert found.phase is phase


def test_a_new_pod_on_the_old_address_and_port_is_another_target() -> None:
    [old] = endpoints_from_slices([piece(endpoint(uid="old"))])
    [new] = endpoints_from_slices([piece(endpoint(uid="new"))])
    assert old.url == new.url
    assert old.key != new.key


@given(st.permutations([("u0", "a"), ("u1", "a"), ("u2", "b"), ("u3", "b")]))
def test_the_result_does_not_depend_on_the_order_of_slices(order: list[tuple[str, str]]) -> None:
    pieces = [piece(endpoint(f"10.0.0.{uid[1]}", uid, uid), pairing=pairing) for uid, pairing in order]
    assert endpoints_from_slices(pieces) == endpoints_from_slices(sorted(pieces, key=str))


def test_a_static_document_gives_ready_targets() -> None:
    entries = [
        {"type": "Prefill", "url": "http://10.0.0.1:8000", "pairing": "r1"},
        {"type": "Decode", "url": "http://[fd00::1]:8001/", "pairing": "r1", "name": "d0"},
    ]
    prefill, decode = endpoints_from_static({"targets": entries})
    assert (prefill.url, prefill.role_type, prefill.pairing) == ("http://10.0.0.1:8000", RoleType.PREFILL, "r1")
    assert (decode.url, decode.pod, decode.phase) == ("http://[fd00::1]:8001", "d0", Phase.READY)


@pytest.mark.parametrize(
    "document, part",
    [
        ([], 'a list "targets"'),
        ({"targets": {}}, 'a list "targets"'),
        ({"targets": ["x"]}, "targets[0]: expected an object"),
        ({"targets": [{"type": "prefill", "url": "http://h:1"}]}, "targets[0].type"),
        ({"targets": [{"type": "Mixed", "url": "h:1"}]}, "targets[0].url"),
        ({"targets": [{"type": "Mixed", "url": "http://h"}]}, "targets[0].url"),
        ({"targets": [{"type": "Mixed", "url": "http://h:99999"}]}, "targets[0].url"),
        ({"targets": [{"type": "Mixed", "url": "https://h:1"}]}, "targets[0].url"),
        ({"targets": [{"type": "Mixed", "url": 5}]}, "targets[0].url"),
        ({"targets": [{"type": "Mixed", "url": "http://h:1", "weight": 2}]}, "unknown member 'weight'"),
        ({"targets": [{"type": "Mixed", "url": "http://h:1"}] * 2}, "targets[1]: http://h:1 is listed twice"),
    ],
)
def test_a_wrong_static_document_is_refused_with_its_place(document: object, part: str) -> None:
    with pytest.raises(BadTargets) as caught:
        endpoints_from_static(document)
    assert part in str(caught.value)
