"""A namespaced installation: an operator whose account has no right outside the namespaces it watches.

It runs before the operator that watches everything starts: what is written here, this one wrote.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import World
from tests.support.kubectl import Kubectl, Program
from tests.support.objects import mixed_group, pool
from tests.support.operator_account import operator_kubeconfig
from tests.support.operator_process import running_operator

pytestmark = pytest.mark.cluster


def test_it_serves_its_namespace_without_cluster_wide_rights(
    kubectl: Kubectl, helm: Program, crds: None, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = operator_kubeconfig(kubectl, helm, tmp_path, namespace, watched=[namespace])
    log = tmp_path / "operator.log"
    world = World(kubectl, namespace)
    with running_operator(kubeconfig, log, [f"--namespace={namespace}", "--resync-seconds=15"]) as operator:
        world.apply(pool(), mixed_group())
        world.wait_ready(pool(), mixed_group())
        writes = [line for line in operator.metrics().splitlines() if line.startswith("kvpool_child_writes_total{")]
        assert {line.split('"')[1]: float(line.split()[-1]) >= 5 for line in writes} == {
            "KVPool": True,
            "InferenceGroup": True,
        }
    text = log.read_text()
    assert "Forbidden" not in text, text[-3000:]
    assert "Traceback" not in text, text[-3000:]
