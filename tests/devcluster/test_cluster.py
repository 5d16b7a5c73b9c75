"""Clusters come up, stay as they are when asked again, and go without a trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.paths import REPOSITORY
from devcluster.profiles import PROFILES
from devcluster.toolchain import tools_paths


def devcluster(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it."""
    command = (sys.executable, "-m", "devcluster", *map(str, arguments))
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=300, check=False)


def kubectl(profile: str, *arguments: str) -> str:
    """kubectl's answer; a failure shows what it said."""
    config = str(PROFILES[profile].kubeconfig)
    command = (str(tools_paths().program("kubectl")), "--kubeconfig", config, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
    return done.stdout


def pids(profile: str) -> dict[str, int]:
    return {process.name: process.pid for process in Cluster(PROFILES[profile]).processes.all() if process.alive}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[str]:
    """The control plane, which other tests may use at the same time: left up if it was up."""
    was_up = Cluster(PROFILES["control-plane"]).is_up
    done = devcluster("up", "--profile", "control-plane")
    assert done.returncode == 0, done.stderr
    yield "control-plane"
    if not was_up:
        devcluster("down", "--profile", "control-plane")


@pytest.mark.api
def test_a_second_up_changes_nothing(control_plane: str) -> None:
    before = pids(control_plane)
    done = devcluster("up", "--profile", control_plane)
    assert done.returncode == 0, done.stderr
    assert pids(control_plane) == before


@pytest.mark.api
def test_status_names_every_process_and_says_up(control_plane: str) -> None:
    done = devcluster("status", "--profile", control_plane)
    assert done.returncode == 0
    assert done.stdout.startswith("control-plane: up")
    assert [name for name in pids(control_plane) if name not in done.stdout] == []


@pytest.mark.api
def test_simulated_nodes_look_like_ascend_servers(control_plane: str) -> None:
    columns = (
        r"jsonpath={range .items[*]}{.status.allocatable.huawei\.com/Ascend910} {.status.allocatable.cpu}{'\n'}{end}"
    )
    lines = kubectl(control_plane, "get", "nodes", "-l", "kvpool.dev/simulated=true", "-o", columns).split("\n")
    rows = [line for line in lines if line]
    assert rows
    assert set(rows) == {"16 192"}


@pytest.mark.api
def test_what_is_running_is_reported_as_left_on_the_machine(control_plane: str) -> None:
    done = devcluster("leftovers", "--profile", control_plane)
    assert done.returncode == 1
    assert "listener on port 16443" in done.stdout


def test_a_wrong_mount_is_refused_with_what_is_expected() -> None:
    done = devcluster("up", "--profile", "node", "--mount", "relative:/opt/x")
    assert done.returncode == 2
    assert "two absolute folders SRC:DST" in done.stderr


POD = """
apiVersion: v1
kind: Pod
metadata: {name: probe}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: shell
    image: localhost/kvpool/busybox:dev
    command: [sh, -c, "cat /opt/seen/word; exec sleep 600"]
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    """A node of this test's own: this is about the way down, too."""
    if os.geteuid() != 0:
        pytest.skip("the node profile needs root")
    if Cluster(PROFILES["node"]).is_up:
        pytest.skip("the node profile is in use: python3 -m devcluster down --profile node")
    (tmp_path / "word").write_text("xyzzy\n", encoding="ascii")
    done = devcluster("up", "--profile", "node", "--mount", f"{tmp_path}:/opt/seen")
    try:
        assert done.returncode == 0, done.stderr
        yield "node"
    finally:
        devcluster("down", "--profile", "node")


@pytest.mark.node
@pytest.mark.parametrize("crashed", [(), ("containerd", "kubelet", "etcd")], ids=["in order", "after a crash"])
def test_a_node_runs_pods_and_its_end_leaves_nothing(node: str, tmp_path: Path, crashed: tuple[str, ...]) -> None:
    pod = tmp_path / "pod.yaml"
    pod.write_text(POD, encoding="utf-8")
    kubectl(node, "apply", "-f", str(pod))
    kubectl(node, "wait", "--for=condition=Ready", "pod/probe", "--timeout=60s")
    assert kubectl(node, "logs", "probe") == "xyzzy\n"
    names = kubectl(node, "exec", "probe", "--", "nslookup", "kubernetes.default.svc.cluster.local")
    assert PROFILES[node].api_service_ip in names
    for process in Cluster(PROFILES[node]).processes.all():
        if process.name in crashed:
            os.kill(process.pid, 9)
    done = devcluster("down", "--profile", node)
    assert done.returncode == 0, done.stderr
    left = devcluster("leftovers", "--profile", node)
    assert left.stdout == "nothing left\n"
    assert (
        shutil.which("ip") is None
        or "kvpool0" not in subprocess.run(("ip", "-br", "link"), capture_output=True, text=True, check=True).stdout
    )
