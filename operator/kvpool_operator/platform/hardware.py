"""Hardware series x link: what an engine pod needs on each, one row each.

Facts come from the Guide 2.3, 5.1, 5.2.3 and 5.6 and from vllm-ascend's deployment notes; a row names its own source.
A new NPU is a new row; nothing else in the operator asks for a series by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class HostMount:
    """One path of the node that the engine sees at the same place."""

    name: str
    path: str
    type: Literal["Directory", "File", "CharDevice", "DirectoryOrCreate"]
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Hardware:
    """One row: the environment, mounts, devices and arithmetic of a series on a link."""

    series: str
    link: str
    protocol: Literal["tcp", "ascend"]
    resource_name: str | None
    devices_per_node: int
    segment_alignment: int
    """Every segment is a whole multiple of this many bytes."""
    env: tuple[tuple[str, str], ...] = ()
    interface_env: tuple[str, ...] = ()
    """Variables that take the name of the network interface."""
    host_ip_env: tuple[str, ...] = ()
    """Variables that take the pod's own address."""
    mounts: tuple[HostMount, ...] = ()
    capabilities: tuple[str, ...] = ()
    privileged: bool = False
    uses_local_buffer: bool = True
    shared_memory: int = 16 * GIB
    """Size limit of /dev/shm, in bytes; counts against the pod's memory."""
    default_connector: Literal["Native", "AscendStore"] = "AscendStore"
    floors: tuple[str, ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        """`A3/HCCS`, as users and messages write it."""
        return f"{self.series}/{self.link}"


# hccn.conf and hccn_tool are not optional: without them transfers succeed and carry garbage (vllm-ascend#7711).
_ASCEND_MOUNTS = (
    HostMount("ascend-driver", "/usr/local/Ascend/driver", "Directory"),
    HostMount("ascend-dcmi", "/usr/local/dcmi", "Directory"),
    HostMount("npu-smi", "/usr/local/bin/npu-smi", "File"),
    HostMount("ascend-install-info", "/etc/ascend_install.info", "File"),
    HostMount("hccn-conf", "/etc/hccn.conf", "File"),
)
_A5_MOUNTS = (
    *_ASCEND_MOUNTS,
    HostMount("urma-admin", "/usr/bin/urma_admin", "File"),
    HostMount("route-conf", "/lib/route.conf", "File"),
    HostMount("hccl-rootinfo", "/etc/hccl_rootinfo.json", "File"),
    HostMount("hixlep", "/etc/hixlep", "Directory"),
    HostMount("dev-ummu", "/dev/ummu", "CharDevice", read_only=False),
    HostMount("dev-uburma", "/dev/uburma", "Directory", read_only=False),
)
_ROCE_INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")

_ROWS = (
    Hardware(
        series="CPU",
        link="TCP",
        protocol="tcp",
        resource_name=None,
        devices_per_node=1,
        segment_alignment=16 * MIB,
        shared_memory=GIB,
        default_connector="Native",
        source="Mooncake over TCP without an accelerator; 16 MiB is its slab size",
    ),
    Hardware(
        series="A2",
        link="ROCE",
        protocol="ascend",
        resource_name="huawei.com/Ascend910",
        devices_per_node=8,
        segment_alignment=GIB,
        # BUFFER_POOL 0:0: without it a client on A2 cannot transfer (Mooncake#3749).
        env=(("HCCL_INTRA_ROCE_ENABLE", "1"), ("ASCEND_BUFFER_POOL", "0:0")),
        interface_env=_ROCE_INTERFACES,
        host_ip_env=("HCCL_IF_IP",),
        mounts=_ASCEND_MOUNTS,
        capabilities=("IPC_LOCK",),
        floors=("HDK >= 25.5", "CANN >= 9.1.0"),
        source="Guide 2.3.1 and 5.1; Mooncake#3749",
    ),
    Hardware(
        series="A3",
        link="ROCE",
        protocol="ascend",
        resource_name="huawei.com/Ascend910",
        devices_per_node=16,
        segment_alignment=GIB,
        env=(("HCCL_INTRA_ROCE_ENABLE", "1"),),
        interface_env=_ROCE_INTERFACES,
        host_ip_env=("HCCL_IF_IP",),
        mounts=_ASCEND_MOUNTS,
        capabilities=("IPC_LOCK",),
        floors=("HDK >= 26.0, or 25.5 with Mooncake >= 0.3.11", "CANN >= 9.1.0"),
        source="Guide 2.3.1 and 5.1",
    ),
    Hardware(
        series="A3",
        link="HCCS",
        protocol="ascend",
        resource_name="huawei.com/Ascend910",
        devices_per_node=16,
        segment_alignment=GIB,
        env=(("ACL_OP_INIT_MODE", "1"), ("ASCEND_ENABLE_USE_FABRIC_MEM", "1")),
        mounts=_ASCEND_MOUNTS,
        capabilities=("IPC_LOCK",),
        uses_local_buffer=False,
        floors=("HDK >= 26.0, or 25.5 with Mooncake >= 0.3.11", "CANN >= 9.1.0", "LingQu >= 1.5"),
        source="Guide 2.3.1, 5.1 and 5.3.2.2",
    ),
    Hardware(
        series="A5",
        link="UB",
        protocol="ascend",
        resource_name="huawei.com/Ascend910",
        devices_per_node=8,
        segment_alignment=GIB,
        env=(("ASCEND_LOCAL_COMM_RES", '{"version":"1.3"}'),),
        mounts=_A5_MOUNTS,
        capabilities=("IPC_LOCK",),
        privileged=True,
        floors=("HDK >= 25.6", "CANN >= 9.1.0", "Mooncake >= 0.3.11"),
        source="Guide 2.1, 5.1 and 5.2.3",
    ),
    Hardware(
        series="A5",
        link="UBOE",
        protocol="ascend",
        resource_name="huawei.com/Ascend910",
        devices_per_node=8,
        segment_alignment=GIB,
        env=(("ASCEND_GLOBAL_RESOURCE_CONFIG", '{"comm_resource_config.protocol_desc":["uboe:device"]}'),),
        mounts=_A5_MOUNTS,
        capabilities=("IPC_LOCK",),
        privileged=True,
        floors=("HDK >= 25.6", "CANN >= 9.1.0", "Mooncake >= 0.3.11"),
        source="Guide 2.1, 5.1 and 5.2.3",
    ),
)

HARDWARE = MappingProxyType({(row.series, row.link): row for row in _ROWS})
SERIES: tuple[str, ...] = tuple(dict.fromkeys(row.series for row in _ROWS))
LINKS: tuple[str, ...] = tuple(dict.fromkeys(row.link for row in _ROWS))


def links_of(series: str) -> tuple[str, ...]:
    """The links a series has."""
    return tuple(row.link for row in _ROWS if row.series == series)


def managed_env_names() -> frozenset[str]:
    """Every variable some row sets: a user's own value for one of these would contradict the hardware."""
    names: set[str] = set()
    for row in _ROWS:
        names |= {name for name, _ in row.env} | set(row.interface_env) | set(row.host_ip_env)
    return frozenset(names)
