"""The configuration files of a node, as pure functions from a profile to text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from devcluster.profiles import Profile

_CRI = 'plugins."io.containerd.grpc.v1.cri"'
_UNUSED_SNAPSHOTTERS = ("aufs", "btrfs", "devmapper", "zfs")


def cni_config(profile: Profile, bridge: str, subnet: str, first: str) -> str:
    """A bridge and addresses from a file. Without ipMasq: masquerading is kube-proxy's, and no CNI-* chains arise."""
    addresses = {
        "type": "host-local",
        "dataDir": str(profile.folder / "ipam"),
        "ranges": [[{"subnet": subnet, "rangeStart": first}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugin = {
        "type": "bridge",
        "bridge": bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "kvpool-devcluster", "plugins": [plugin]}, indent=1)


def runtime_spec(default: dict[str, Any], mounts: Iterable[str]) -> str:
    """containerd's own container spec, and these folders of the machine read-only in every container."""
    binds = []
    for mount in mounts:
        source, _, target = mount.partition(":")
        binds.append({"destination": target, "source": source, "type": "bind", "options": ["rbind", "ro"]})
    return json.dumps({**default, "mounts": [*default["mounts"], *binds]}, indent=1)


def containerd_config(profile: Profile, state: Path, socket: Path, pause_image: str, base_spec: Path) -> str:
    """containerd with the CRI plug-in, everything below the run folder and a short state folder."""
    unused = ", ".join(f'"io.containerd.snapshotter.v1.{name}"' for name in _UNUSED_SNAPSHOTTERS)
    return f"""\
version = 2
root = "{profile.folder}/containerd"
state = "{state}"
disabled_plugins = [{unused}]
[grpc]
  address = "{socket}"
[{_CRI}]
  sandbox_image = "{pause_image}"
  # A machine without CAP_SYS_RESOURCE cannot lower oom_score_adj, and runc would fail.
  restrict_oom_score_adj = true
  [{_CRI}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{profile.folder}/cni"
  [{_CRI}.containerd]
    snapshotter = "overlayfs"
    [{_CRI}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = "{base_spec}"
      [{_CRI}.containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{state}/runc"
"""


def kubelet_config(profile: Profile, socket: Path, address: str) -> str:
    """A kubelet that reports often, evicts late, and keeps its files below the run folder."""
    folder = profile.folder
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "healthzPort": 0,
            "readOnlyPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(profile.pki / "ca.crt")},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{socket}",
            "clusterDNS": [address],
            "clusterDomain": "cluster.local",
            # The machine's own resolver must not leak into pods.
            "resolvConf": str(folder / "resolv.conf"),
            "podLogsDir": str(folder / "pod-logs"),
            "volumePluginDir": str(folder / "volume-plugins"),
            # Version 1 of control groups is what some machines still mount.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": True,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
            "imageGCHighThresholdPercent": 100,
            "maxPods": 200,
            "nodeStatusUpdateFrequency": "2s",
            "syncFrequency": "10s",
            "registryPullQPS": 0,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "shutdownGracePeriod": "0s",
        },
        indent=1,
    )


def kube_proxy_config(profile: Profile, node_name: str, subnet: str) -> str:
    """kube-proxy on iptables, quick to follow; masqueradeAll, for there is no other masquerading."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "hostnameOverride": node_name,
            "clientConnection": {"kubeconfig": str(profile.folder / "kube-proxy.kubeconfig")},
            "clusterCIDR": subnet,
            "conntrack": {"maxPerCore": 0},
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "iptables": {"minSyncPeriod": "100ms", "syncPeriod": "30s", "masqueradeAll": True},
        },
        indent=1,
    )


def corefile(profile: Profile, address: str) -> str:
    """The cluster's own zone and nothing else: names outside are not resolved."""
    return f"""\
.:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {profile.kubeconfig}
        pods insecure
        ttl 1
    }}
    loadbalance
}}
"""
