"""What a node changes on its machine: looking at it, and putting it back.

Used by `down`, which removes, and by `leftovers`, which only reports; both see through the same functions.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from devcluster.shell import run

# The kubelet and kube-proxy set these and never put them back.
SYSCTLS = (
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/bridge/bridge-nf-call-iptables",
    "net/ipv4/conf/all/route_localnet",
    "net/ipv4/ip_forward",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_tcp_be_liberal",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
# Folders at fixed places, which no flag of the kubelet, CNI or containerd's shims moves.
FIXED_FOLDERS = ("/run/containerd", "/run/flannel", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")
_TABLES = ("filter", "nat", "mangle")
_CGROUPS = Path("/sys/fs/cgroup")


def read_sysctls() -> dict[str, str]:
    """The present values of those that exist here."""
    values = {}
    for name in SYSCTLS:
        try:
            values[name] = Path("/proc/sys", name).read_text(encoding="ascii").strip()
        except OSError:
            continue
    return values


def write_sysctls(values: dict[str, str]) -> None:
    """Put values back, touching only those that differ."""
    present = read_sysctls()
    for name, value in values.items():
        if present.get(name) not in (None, value):
            Path("/proc/sys", name).write_text(value, encoding="ascii")


def mounts_below(folders: Iterable[Path]) -> list[str]:
    """Mount points under these folders, deepest first, so that they can be unmounted in this order."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    roots = tuple(f"{folder}/" for folder in folders)
    return sorted((point for point in points if f"{point}/".startswith(roots)), key=len, reverse=True)


def unmount_below(folders: Iterable[Path]) -> list[str]:
    """Unmount everything under these folders; give what resisted."""
    chosen = list(folders)
    for point in mounts_below(chosen):
        run("umount", "-l", point, check=False)
    return mounts_below(chosen)


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """Every process of the machine with its arguments."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                raw = Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if raw:
                yield int(entry), raw.decode("utf-8", "replace").rstrip("\0").split("\0")


def processes_naming(texts: Iterable[str]) -> list[tuple[int, str]]:
    """Processes one of whose arguments contains one of these texts, but for this command and those above it."""
    wanted, own = tuple(texts), _ancestors()
    found = []
    for pid, arguments in command_lines():
        if pid not in own and any(text in argument for text in wanted for argument in arguments):
            found.append((pid, " ".join(arguments)[:120]))
    return found


def children(pid: int) -> list[int]:
    """The processes that this one started and that still run."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def kill(pid: int) -> None:
    """End a process for good; one that is gone is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _ancestors() -> set[int]:
    pids, pid = set(), os.getpid()
    while pid > 0:
        pids.add(pid)
        try:
            status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            break
        pid = int(status.rsplit(")", 1)[1].split()[1])
    return pids


def network_links(bridge: str) -> list[str]:
    """The bridge and what is plugged into it."""
    folder = Path("/sys/class/net")
    plugged = [entry.name for entry in folder.iterdir() if (entry / "master").resolve().name == bridge]
    return [*plugged, *([bridge] if (folder / bridge).exists() else [])]


def network_namespaces() -> list[str]:
    """The named network namespaces that CNI made for pods."""
    return [str(path) for path in sorted(Path("/run/netns").glob("cni-*"))]


def remove_network_namespace(path: str) -> None:
    """A pod's namespace is a bind mount on a file; with it goes its pair of virtual links."""
    run("umount", "-l", path, check=False)
    Path(path).unlink(missing_ok=True)


def kubernetes_chains() -> list[tuple[str, str, str]]:
    """Chains of kube-proxy and the kubelet as (program, table, chain)."""
    found = []
    for program in ("iptables", "ip6tables"):
        if shutil.which(f"{program}-save"):
            for table in _TABLES:
                found += [
                    (program, table, line[1:].split()[0])
                    for line in _rules(program, table)
                    if line.startswith(":KUBE-")
                ]
    return found


def _rules(program: str, table: str) -> list[str]:
    # A table that no rule uses is not even loaded, and asking would load it.
    names = Path("/proc/net/ip_tables_names" if program == "iptables" else "/proc/net/ip6_tables_names")
    uses_nft = "nf_tables" in run(program, "--version", check=False)
    if not uses_nft and (not names.exists() or table not in names.read_text(encoding="ascii").split()):
        return []
    return run(f"{program}-save", "-t", table, check=False).splitlines()


def remove_kubernetes_chains() -> None:
    """Drop the chains that ``kube-proxy --cleanup`` leaves, and the jumps to them from the built-in chains."""
    chains = kubernetes_chains()
    for program, table in sorted({(program, table) for program, table, _ in chains}):
        for rule in _rules(program, table):
            if rule.startswith("-A ") and " -j KUBE-" in rule and not rule.startswith("-A KUBE-"):
                subprocess.run(
                    f"{program} -t {table} -D {rule[3:]}",  # iptables-save quotes for a shell
                    shell=True,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )
    for action in ("-F", "-X"):
        for program, table, chain in chains:
            run(program, "-t", table, action, chain, check=False)


def pod_cgroups() -> list[Path]:
    """The kubelet's control groups, deepest first; cgroup v1 has one tree per controller."""
    roots = [_CGROUPS, *(path for path in _CGROUPS.iterdir() if path.is_dir())] if _CGROUPS.is_dir() else []
    tops = {path.resolve() for root in roots for path in root.glob("kubepods*") if path.is_dir()}
    return [Path(folder) for top in sorted(tops) for folder, _, _ in os.walk(top, topdown=False)]


def remove_pod_cgroups() -> None:
    """Remove those that are empty."""
    for folder in pod_cgroups():
        try:
            folder.rmdir()
        except OSError:
            continue


def listening_ports() -> set[int]:
    """The TCP ports on which anything listens on this machine."""
    ports = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        ports |= {int(line.split()[1].rsplit(":", 1)[1], 16) for line in lines if line.split()[3] == "0A"}
    return ports
