"""Ending a cluster so that the machine is as it was before, whatever state the cluster is in."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from devcluster import host, node, simulated
from devcluster.paths import write
from devcluster.processes import ProcessTable
from devcluster.profiles import Profile
from devcluster.shell import DevclusterError, run, say
from devcluster.toolchain import Tools

_HOST_FILE = "host.json"


def remember_host(profile: Profile) -> None:
    """Note what `down` must put back: kernel settings, and which fixed folders were there before."""
    found = [folder for folder in host.FIXED_FOLDERS if Path(folder).exists()]
    before = {"sysctls": host.read_sysctls(), "folders": found, "namespaces": host.network_namespaces()}
    write(profile.folder / _HOST_FILE, json.dumps(before))


def _host_before(profile: Profile) -> dict[str, Any] | None:
    try:
        return dict(json.loads((profile.folder / _HOST_FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def down(profile: Profile, tools: Tools) -> None:
    """End the processes of a profile in an order that lets each clean up, then remove what they left."""
    if not _is_there(profile):
        return
    processes = ProcessTable(profile.folder)
    processes.stop(*node.AGENTS, simulated.NAME, "kube-controller-manager", "kube-scheduler")
    # Without etcd the API server waits out its own time limit.
    processes.stop("kube-apiserver", wait=8.0 if processes.alive("etcd") else 1.0)
    processes.stop("etcd")
    if profile.has_node:
        _end_containers(profile, processes)
    processes.stop(*(process.name for process in processes.all()))
    if profile.has_node:
        _clean_host(profile, tools)
    shutil.rmtree(profile.folder, ignore_errors=True)
    say(f"{profile.name} is down")


def _is_there(profile: Profile) -> bool:
    return profile.folder.exists() or (profile.has_node and node.STATE.exists())


def _end_containers(profile: Profile, processes: ProcessTable) -> None:
    """End all tasks while containerd lives, then containerd."""
    if not processes.alive("containerd") and _shims() and node.containerd_config(profile).exists():
        say("containerd is dead but its shims live: starting it again to end them")
        node.start_containerd(profile, processes)
    if processes.alive("containerd"):
        tasks = node.ctr("tasks", "ls", "-q", check=False).split()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda task: node.ctr("tasks", "rm", "-f", task, check=False), tasks))
        _end_shims()
        processes.stop("containerd")
    # One whose task was half made when containerd died belongs to no task that could be removed.
    _end_shims(wait=0.5)
    if shims := _shims():
        raise DevclusterError(f"containers outlived containerd, end these first: {shims}")


def _shims() -> list[tuple[int, str]]:
    return [found for found in host.processes_naming((str(node.SOCKET),)) if "containerd-shim" in found[1]]


def _end_shims(wait: float = 3.0) -> None:
    """Wait for this containerd's shims to follow their tasks; kill those that do not, and what they run."""
    end = time.monotonic() + wait
    while (shims := _shims()) and time.monotonic() < end:
        time.sleep(0.1)
    for pid, line in shims:
        say(f"killing what outlived its task: {line}")
        for victim in (*host.children(pid), pid):
            host.kill(victim)
    end = time.monotonic() + 5
    while _shims() and time.monotonic() < end:
        time.sleep(0.1)


def _clean_host(profile: Profile, tools: Tools) -> None:
    before = _host_before(profile)
    # All that came since: containerd forgets that of a pod whose making was cut short.
    for namespace in set(host.network_namespaces()) - set(before["namespaces"]) if before else ():
        host.remove_network_namespace(namespace)
    # Never delete below a mount: a pod's volume could be a folder of this machine.
    if resisting := host.unmount_below((profile.folder, node.STATE)):
        raise DevclusterError(f"still mounted, so nothing was deleted: {', '.join(resisting)}")
    if tools.kubernetes.exists():
        run(tools.program("kube-proxy"), "--cleanup", check=False)
    host.remove_kubernetes_chains()
    for link in reversed(host.network_links(node.BRIDGE)):
        run("ip", "link", "del", link, check=False)
    host.remove_pod_cgroups()
    _restore_host(profile)
    shutil.rmtree(node.STATE, ignore_errors=True)


def _restore_host(profile: Profile) -> None:
    before = _host_before(profile)
    if before is None:
        return
    host.write_sysctls(before["sysctls"])
    for folder in host.FIXED_FOLDERS:
        if folder not in before["folders"] and not host.mounts_below((Path(folder),)):
            shutil.rmtree(folder, ignore_errors=True)


def leftovers(profile: Profile) -> list[str]:
    """One line for each thing of this profile that is on the machine; empty after `down`."""
    folders = [profile.folder, *((node.STATE,) if profile.has_node else ())]
    found = [f"folder {folder}" for folder in folders if folder.exists()]
    found += [f"process {pid}: {line}" for pid, line in host.processes_naming(f"{folder}/" for folder in folders)]
    busy = host.listening_ports()
    found += [f"listener on port {port}" for port in profile.ports if port in busy]
    if profile.has_node:
        found += [f"mount {point}" for point in host.mounts_below(folders)]
        found += [f"network namespace {path}" for path in host.network_namespaces()]
        found += [f"network link {name}" for name in host.network_links(node.BRIDGE)]
        found += [f"{program} chain {table}/{chain}" for program, table, chain in host.kubernetes_chains()]
        found += [f"cgroup {path}" for path in host.pod_cgroups() if path.name == "kubepods"]
        fixed = [Path(folder) for folder in ("/var/lib/kubelet", "/var/lib/cni", "/var/log/containers")]
        found += [f"folder {folder}" for folder in fixed if folder.exists()]
    return [f"{profile.name}: {line}" for line in found]
