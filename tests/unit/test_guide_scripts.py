"""What the deployment guide's scripts set by hand, set by the operator: the guide's own values, pod by pod.

The numbers in the names are the guide's sections. Where kvpool differs from the guide, the test says so and why.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvpool_connector.contract import EngineContract, render_kv_transfer_config
from kvpool_connector.contract.mooncake import render_mooncake_json
from tests.support.live import built_group, built_pool, child, container, env_of
from tests.support.objects import Object, group, mixed_group, pool

SPLIT = [
    {"name": "prefill", "type": "Prefill", "parallelism": {"tensor": 8}},
    {"name": "decode", "type": "Decode", "parallelism": {"tensor": 8}},
]
ENGINE = {"image": "vllm-ascend:1", "release": "0.23.0", "connector": "AscendStore"}
ROCE = {"HCCL_INTRA_ROCE_ENABLE": "1"}
INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")

# What the scripts of 2.3.1 export by series and link. ASCEND_BUFFER_POOL is ours: without it A2 transfers fail.
EXPORTS: dict[tuple[str, str], dict[str, str]] = {
    ("A2", "ROCE"): {**ROCE, "ASCEND_BUFFER_POOL": "0:0"},
    ("A3", "ROCE"): ROCE,
    ("A3", "HCCS"): {"ACL_OP_INIT_MODE": "1", "ASCEND_ENABLE_USE_FABRIC_MEM": "1"},
    ("A5", "UB"): {"ASCEND_LOCAL_COMM_RES": '{"version":"1.3"}'},
    ("A5", "UBOE"): {"ASCEND_GLOBAL_RESOURCE_CONFIG": '{"comm_resource_config.protocol_desc":["uboe:device"]}'},
}
ALL_EXPORTS = {name for exports in EXPORTS.values() for name in exports}


def _pool(series: str = "A2", link: str = "ROCE", **spec: Any) -> Object:
    return pool(hardware={"series": series, "link": link}, segment={"size": "20Gi"}, **spec)


def _split(**spec: Any) -> Object:
    return group(engine=ENGINE, roles=SPLIT, **spec)


def _deployment(obj: Object, store: Object, role: str) -> dict[str, Any]:
    return child(built_group(obj, store)[1], "Deployment", f"qwen-{role}")


def _config(obj: Object, role: str) -> dict[str, Any]:
    return render_kv_transfer_config(EngineContract.from_environ(env_of(_deployment(obj, _pool(), role))))


@pytest.mark.parametrize("series, link", EXPORTS)
@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_engines_get_the_variables_of_their_hardware_and_of_no_other(series: str, link: str, role: str) -> None:
    env = env_of(_deployment(_split(), _pool(series, link), role))
    assert {name: value for name, value in env.items() if name in ALL_EXPORTS} == EXPORTS[series, link]


@pytest.mark.parametrize("series, link", EXPORTS)
def test_roce_engines_know_interface_and_address(series: str, link: str) -> None:
    variables = {
        v["name"]: v for v in container(_deployment(_split(), _pool(series, link), "prefill"), "engine")["env"]
    }
    assert {*INTERFACES, "HCCL_IF_IP"} & variables.keys() == ({*INTERFACES, "HCCL_IF_IP"} if link == "ROCE" else set())
    if link == "ROCE":
        assert variables["HCCL_IF_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_every_engine_hashes_alike() -> None:
    for role in ("prefill", "decode"):
        assert env_of(_deployment(_split(), _pool(), role))["PYTHONHASHSEED"] == "0"


def test_master_address_and_segment_come_as_variables_and_the_file_has_a_place() -> None:
    env = env_of(_deployment(_split(), _pool(), "prefill"))
    assert env["MOONCAKE_MASTER"] == "shared-master-0.ml.svc:50088"
    assert env["MOONCAKE_GLOBAL_SEGMENT_SIZE"] == str(20 << 30)
    assert env["MOONCAKE_CONFIG_PATH"].endswith("/mooncake.json")


def test_mooncake_json_is_that_of_2_2_1() -> None:
    contract = EngineContract.from_environ(env_of(_deployment(_split(), _pool(), "prefill")))
    written = json.loads(render_mooncake_json(contract))
    assert written == {
        "metadata_server": "P2PHANDSHAKE",
        "protocol": "ascend",
        "device_name": "",
        "master_server_address": "shared-master-0.ml.svc:50088",
        "global_segment_size": 20 << 30,
        "local_buffer_size": 1 << 30,
        "preferred_segment": False,
        "prefer_alloc_in_same_node": True,
        "enable_ssd_offload": False,
        "tenant_id": "default",
    }


def test_the_master_starts_with_the_flags_of_2_2_2() -> None:
    _, built = built_pool(_pool(mooncake={"master": {"leaseMilliseconds": 11000, "rpcThreads": 64}}))
    args = set(container(child(built, "StatefulSet"), "master")["args"])
    assert {
        "--rpc_port=50088",
        "--eviction_high_watermark_ratio=0.9",
        "--eviction_ratio=0.1",
        "--default_kv_lease_ttl=11000",
        "--enable_offload=false",
        "--client_ttl=120",
        "--rpc_thread_num=64",
    } <= args


@pytest.mark.parametrize(
    "role, kv_role, lookup_port", [("prefill", "kv_producer", "0"), ("decode", "kv_consumer", "1")]
)
def test_the_transfer_configuration_is_that_of_2_3_1(role: str, kv_role: str, lookup_port: str) -> None:
    """But for the port, which stays clear of the transfer engine's own, and the policy, which vLLM has as fail."""
    config = _config(_split(kv={"transfer": "P2P", "loadFailurePolicy": "Recompute"}), role)
    port = config["kv_connector_extra_config"]["connectors"][0].pop("kv_port")
    assert int(port) >= 28_000
    sizes = {"dp_size": 1, "tp_size": 8}
    assert config == {
        "kv_connector": "MultiConnector",
        "kv_role": kv_role,
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "connectors": [
                {
                    "kv_connector": "MooncakeConnectorV1",
                    "kv_role": kv_role,
                    "kv_connector_extra_config": {"prefill": sizes, "decode": sizes},
                },
                {
                    "kv_connector": "AscendStoreConnector",
                    "kv_role": kv_role,
                    "kv_connector_extra_config": {"backend": "mooncake", "lookup_rpc_port": lookup_port},
                },
            ]
        },
    }


def test_the_transfer_configuration_of_mixed_engines_is_that_of_2_4_1() -> None:
    mixed = mixed_group(engine=ENGINE, roles=[{"name": "mixed", "type": "Mixed", "parallelism": {"tensor": 8}}])
    assert _config(mixed, "mixed") == {
        "kv_connector": "AscendStoreConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {"backend": "mooncake", "lookup_rpc_port": "0"},
    }


def test_a_decode_may_put_and_load_and_any_engine_load_in_the_background() -> None:
    config = _config(_split(kv={"decodePuts": True, "decodeLoads": True, "loadAsync": True}), "decode")
    store = config["kv_connector_extra_config"]["connectors"][1]["kv_connector_extra_config"]
    assert store["consumer_is_to_put"] is True
    assert store["consumer_is_to_load"] is True
    assert store["load_async"] is True


def test_the_engines_command_line_is_that_of_2_3_1() -> None:
    flags = ["--trust-remote-code", "--enforce-eager", "--max-num-seqs=20", "--max-model-len=32768"]
    flags += ["--max-num-batched-tokens=16384", "--gpu-memory-utilization=0.9", "--no-enable-prefix-caching"]
    obj = group(engine={**ENGINE, "port": 30050, "args": flags}, roles=SPLIT)
    args = container(_deployment(obj, _pool(), "decode"), "engine")["args"]
    pairs = dict(zip(args[:10:2], args[1:10:2], strict=True))
    assert pairs == {
        "--model": "/models/qwen",
        "--served-model-name": "qwen",
        "--port": "30050",
        "--tensor-parallel-size": "8",
        "--data-parallel-size": "1",
    }
    assert args[10:] == flags


def test_an_a5_container_sees_what_docker_run_of_5_2_3_mounts() -> None:
    engine = container(_deployment(_split(), _pool("A5", "UB"), "prefill"), "engine")
    assert engine["securityContext"] == {"privileged": True}
    assert {
        "/dev/ummu",
        "/dev/uburma",
        "/usr/bin/urma_admin",
        "/lib/route.conf",
        "/etc/hccl_rootinfo.json",
        "/etc/hccn.conf",
        "/etc/hixlep",
        "/usr/local/dcmi",
        "/usr/local/bin/npu-smi",
        "/usr/local/Ascend/driver",
    } <= {mount["mountPath"] for mount in engine["volumeMounts"]}


@pytest.mark.parametrize("series, link", EXPORTS)
def test_an_engine_sees_driver_tools_and_link_configuration(series: str, link: str) -> None:
    engine = container(_deployment(_split(), _pool(series, link), "decode"), "engine")
    mounted = {mount["mountPath"] for mount in engine["volumeMounts"]}
    assert {"/etc/hccn.conf", "/etc/ascend_install.info", "/usr/local/Ascend/driver", "/usr/local/dcmi"} <= mounted


@pytest.mark.parametrize("series, link", EXPORTS)
def test_devices_come_from_the_device_plugin_one_a_rank(series: str, link: str) -> None:
    """Instead of ASCEND_RT_VISIBLE_DEVICES and --device=/dev/davinciN by hand."""
    engine = container(_deployment(_split(), _pool(series, link), "prefill"), "engine")
    assert engine["resources"]["limits"]["huawei.com/Ascend910"] == "8"
    assert "ASCEND_RT_VISIBLE_DEVICES" not in {variable["name"] for variable in engine["env"]}
