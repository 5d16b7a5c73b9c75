"""Simulated Ascend servers: Node objects that kwok keeps Ready, and whose pods become Running and Ready at once."""

from __future__ import annotations

from typing import Any

from devcluster.api import Api, node_is_ready
from devcluster.processes import ProcessTable
from devcluster.profiles import Profile
from devcluster.toolchain import Tools

NAME = "kwok"
LABEL = "kvpool.dev/simulated"
_MANAGED = "kwok.x-k8s.io/node"
# An Atlas A3 server as its device plugin shows it: 16 dies.
RESOURCES = {"cpu": "192", "memory": "1Ti", "pods": "200", "huawei.com/Ascend910": "16"}


def node_name(number: int) -> str:
    """The name of the simulated node of this number."""
    return f"ascend-{number}"


def simulated_node(number: int) -> dict[str, Any]:
    """A Node with an own address and an own range of pod addresses."""
    name = node_name(number)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_MANAGED: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                LABEL: "true",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "arm64",
            },
        },
        "spec": {"podCIDR": f"10.245.{number}.0/24", "podCIDRs": [f"10.245.{number}.0/24"]},
        "status": {
            "capacity": RESOURCES,
            "allocatable": RESOURCES,
            "addresses": [
                {"type": "InternalIP", "address": f"10.246.0.{number + 1}"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {"architecture": "arm64", "operatingSystem": "linux"},
        },
    }


def start_simulator(profile: Profile, tools: Tools, processes: ProcessTable) -> None:
    """Start kwok for the nodes that carry its annotation."""
    processes.start(
        NAME,
        tools.kwok / "kwok",
        *("--config", tools.kwok / "stages.yaml"),
        *("--kubeconfig", profile.kubeconfig),
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={_MANAGED}=fake",
        *("--cidr", "10.245.0.0/16", "--node-ip", "10.246.0.1"),
        *("--server-address", f"127.0.0.1:{profile.kwok_port}"),
    )


def set_nodes(api: Api, processes: ProcessTable, count: int) -> None:
    """Make exactly this many simulated nodes exist, and wait until they are Ready."""
    path = "/api/v1/nodes"
    wanted = {node_name(number): number for number in range(count)}
    present = {node["metadata"]["name"] for node in _simulated(api)}
    for name in sorted(present - wanted.keys()):
        api.delete(f"{path}/{name}")
    for name in sorted(wanted.keys() - present):
        api.create(path, simulated_node(wanted[name]))

    def all_ready() -> bool:
        nodes = {node["metadata"]["name"]: node for node in _simulated(api)}
        return nodes.keys() == wanted.keys() and all(node_is_ready(node) for node in nodes.values())

    processes.wait_for(f"{count} simulated nodes are Ready", all_ready)


def _simulated(api: Api) -> list[dict[str, Any]]:
    return list(api.get(f"/api/v1/nodes?labelSelector={LABEL}%3Dtrue").get("items", []))
