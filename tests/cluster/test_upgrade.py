"""A new operator version that renders differently: nothing restarts, it is said, and one command applies it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import World
from tests.support.kubectl import Kubectl
from tests.support.objects import changed, group, pool
from tests.support.operator_process import REPOSITORY, running_operator

pytestmark = pytest.mark.cluster


def _plugin(kubeconfig: Path, *arguments: str) -> str:
    """`kubectl kvpool`."""
    command = [sys.executable, "-m", "kvpool_operator.cli.main", *arguments, f"--kubeconfig={kubeconfig}"]
    environ = {**os.environ, "PYTHONPATH": "operator:connector"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _carriers(world: World) -> dict[str, str]:
    """By role: the image of the init container of its pods."""
    return {
        role: world.list("pods", f"kvpool.dev/role={role}")[0]["spec"]["initContainers"][0]["image"]
        for role in ("prefill", "decode")
    }


def test_a_newer_rendering_waits_until_it_is_asked_for(
    control_plane: Path, kubectl: Kubectl, crds: None, namespace: str, tmp_path: Path
) -> None:
    world = World(kubectl, namespace)
    here = [f"--namespace={namespace}"]
    with running_operator(control_plane, tmp_path / "old.log", [*here, "--connector-image=carrier:old"]):
        world.apply(pool(), group())
        world.wait_ready(pool(), group())
    pods = {role: world.pods(role) for role in ("prefill", "decode")}

    with running_operator(control_plane, tmp_path / "new.log", [*here, "--connector-image=carrier:new"]):
        said = world.wait_condition("InferenceGroup", "qwen", "UpdateAvailable", "True")
        assert "prefill, decode" in said["message"]
        assert {role: world.pods(role) for role in pods} == pods

        # The next change of a role's spec takes the new rendering for that role alone.
        edited = changed(group(), spec__roles__1__env=[{"name": "LEVEL", "value": "1"}])
        world.apply(edited)
        world.wait_for("decode to be replaced", lambda: pods["decode"].isdisjoint(world.pods("decode")))
        world.wait_ready(edited)
        assert _carriers(world) == {"prefill": "carrier:old", "decode": "carrier:new"}
        assert world.pods("prefill") == pods["prefill"]

        decode = world.pods("decode")
        assert "prefill" in _plugin(control_plane, "upgrade", "ig/qwen", "-n", namespace)
        world.wait_for("prefill to be replaced", lambda: pods["prefill"].isdisjoint(world.pods("prefill")))
        world.wait_condition("InferenceGroup", "qwen", "UpdateAvailable", "False")
        world.wait_ready(edited)
        assert _carriers(world) == {"prefill": "carrier:new", "decode": "carrier:new"}
        assert world.pods("decode") == decode, "what is rendered alike is not restarted"
        assert "nothing to upgrade" in _plugin(control_plane, "upgrade", "ig/qwen", "-n", namespace)
