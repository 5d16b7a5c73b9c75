"""The two kinds of cluster, as a table: their ports, networks and folders never meet, so both can run at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devcluster.paths import run_root


@dataclass(frozen=True)
class Profile:
    """One kind of cluster and all addresses that it takes."""

    name: str
    api_port: int
    etcd_port: int
    etcd_peer_port: int
    controller_manager_port: int
    scheduler_port: int
    kwok_port: int
    service_cidr: str
    api_service_ip: str
    advertise_address: str
    has_node: bool

    @property
    def folder(self) -> Path:
        """The run folder: all state of the running cluster."""
        return run_root() / self.name

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.folder / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Every loopback port that this profile listens on."""
        common = (self.api_port, self.etcd_port, self.etcd_peer_port, self.controller_manager_port, self.scheduler_port)
        return common if self.has_node else (*common, self.kwok_port)


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="control-plane",
            api_port=16443,
            etcd_port=12379,
            etcd_peer_port=12380,
            controller_manager_port=16257,
            scheduler_port=16259,
            kwok_port=16247,
            service_cidr="10.97.0.0/16",
            api_service_ip="10.97.0.1",
            # The API server refuses a loopback address here. No pod runs, so nobody calls this one.
            advertise_address="192.0.2.1",
            has_node=False,
        ),
        Profile(
            name="node",
            api_port=26443,
            etcd_port=22379,
            etcd_peer_port=22380,
            controller_manager_port=26257,
            scheduler_port=26259,
            kwok_port=26247,
            service_cidr="10.96.0.0/16",
            api_service_ip="10.96.0.1",
            advertise_address="10.244.0.1",
            has_node=True,
        ),
    )
}
