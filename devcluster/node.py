"""This machine as a node: containerd, the kubelet, kube-proxy and a DNS server on the pods' bridge."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

from devcluster import node_files, oci
from devcluster.api import Api, node_is_ready
from devcluster.paths import write
from devcluster.processes import ProcessTable
from devcluster.profiles import Profile
from devcluster.shell import answer, run, say
from devcluster.toolchain import Tools

AGENTS = ("kubelet", "kube-proxy", "coredns")
NAMES = ("containerd", *AGENTS)
NODE_NAME = "kvpool-node"
BRIDGE = "kvpool0"
GATEWAY = "10.244.0.1"
SUBNET = "10.244.0.0/24"
FIRST_POD_ADDRESS = "10.244.0.10"
# A short path: names of unix sockets are limited to 108 bytes.
STATE = Path("/run/kvpool-devcluster")
SOCKET = STATE / "containerd.sock"
PAUSE_IMAGE = "localhost/kvpool/pause:dev"
BUSYBOX_IMAGE = "localhost/kvpool/busybox:dev"


def containerd_config(profile: Profile) -> Path:
    """containerd's configuration file."""
    return profile.folder / "containerd.toml"


def _base_spec(profile: Profile) -> Path:
    return profile.folder / "base-spec.json"


def ctr(*arguments: str | Path, check: bool = True) -> str:
    """Run containerd's client in the namespace of Kubernetes."""
    return run("ctr", "--address", SOCKET, "--namespace", "k8s.io", *arguments, check=check)


def start_runtime(profile: Profile, processes: ProcessTable, mounts: tuple[str, ...]) -> None:
    """Make the bridge, write all files, start containerd and give it the pause image."""
    _make_bridge()
    folder = profile.folder
    write(folder / "cni" / "10-bridge.conflist", node_files.cni_config(profile, BRIDGE, SUBNET, FIRST_POD_ADDRESS))
    write(folder / "resolv.conf", "")
    write(folder / "kubelet.yaml", node_files.kubelet_config(profile, SOCKET, GATEWAY))
    write(folder / "kube-proxy.yaml", node_files.kube_proxy_config(profile, NODE_NAME, SUBNET))
    write(folder / "Corefile", node_files.corefile(profile, GATEWAY))
    _write_runtime_spec(profile, mounts)
    config = node_files.containerd_config(profile, STATE, SOCKET, PAUSE_IMAGE, _base_spec(profile))
    write(containerd_config(profile), config)
    start_containerd(profile, processes)
    _load_small_images(folder)


def _make_bridge() -> None:
    if not Path("/sys/class/net", BRIDGE).exists():
        run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "replace", f"{GATEWAY}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")


def _write_runtime_spec(profile: Profile, mounts: tuple[str, ...]) -> None:
    default = json.loads(answer("ctr", "oci", "spec"))
    write(_base_spec(profile), node_files.runtime_spec(default, mounts))


def start_containerd(profile: Profile, processes: ProcessTable) -> None:
    """Start containerd and wait until it answers."""
    processes.start("containerd", "containerd", "--config", containerd_config(profile))
    probe = ("ctr", "--address", str(SOCKET), "version")

    def answers() -> bool:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    if processes.alive("kube-apiserver"):
        processes.wait_for("containerd answers", answers, 20)
        return
    # While a broken cluster is taken down, the other processes are dead already.
    end = time.monotonic() + 20
    while not answers() and processes.alive("containerd") and time.monotonic() < end:
        time.sleep(0.1)


def restart_runtime(profile: Profile, processes: ProcessTable, mounts: tuple[str, ...]) -> None:
    """Give new containers other folders of the machine; running ones keep theirs and live on."""
    _write_runtime_spec(profile, mounts)
    processes.stop("containerd")
    start_containerd(profile, processes)
    say(f"mounts: {', '.join(mounts) or 'none'}")


def _load_small_images(folder: Path) -> None:
    """The image that holds a pod's namespaces, and a shell for tests: the same static binary."""
    busybox = Path("/bin/busybox")
    programs = [name for name in answer(busybox, "--list").split() if name != "busybox"]
    layer = oci.layer_of_one_program(busybox, "busybox", programs)
    images = {PAUSE_IMAGE: ["/bin/busybox", "sleep", "2147483647"], BUSYBOX_IMAGE: ["/bin/sh"]}
    for name, command in images.items():
        archive = folder / "image.tar"
        oci.write_archive(archive, name, [layer], {"Cmd": command, "Env": ["PATH=/bin"]})
        ctr("images", "import", archive)
        archive.unlink()


def start_kubelet(profile: Profile, tools: Tools, processes: ProcessTable) -> None:
    """Start the node's two agents of Kubernetes."""
    folder = profile.folder
    processes.start(
        "kubelet",
        tools.program("kubelet"),
        *("--config", folder / "kubelet.yaml", "--kubeconfig", folder / "kubelet.kubeconfig"),
        *("--hostname-override", NODE_NAME, "--root-dir", folder / "kubelet", "--node-ip", GATEWAY),
    )
    processes.start("kube-proxy", tools.program("kube-proxy"), "--config", folder / "kube-proxy.yaml")


def wait_until_ready(profile: Profile, tools: Tools, processes: ProcessTable, api: Api) -> None:
    """Start DNS, which needs the API, and wait until the node takes pods and names resolve."""
    processes.start("coredns", tools.program("coredns"), "-conf", profile.folder / "Corefile")
    path = f"/api/v1/nodes/{NODE_NAME}"
    processes.wait_for("the node is Ready", lambda: node_is_ready(api.get(path)))
    processes.wait_for("names resolve", lambda: _resolves(profile.api_service_ip))


def _resolves(expected: str) -> bool:
    """Ask the cluster's DNS server for the API server's name."""
    labels = ("kubernetes", "default", "svc", "cluster", "local")
    name = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + name + b"\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.settimeout(0.3)
        try:
            channel.sendto(query, (GATEWAY, 53))
            return socket.inet_aton(expected) in channel.recv(512)
        except OSError:
            return False
