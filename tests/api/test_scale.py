"""/scale of a role: honoured where the role decides, refused where the group does."""

from __future__ import annotations

import json

import pytest

from tests.support.kubectl import Kubectl
from tests.support.objects import role

pytestmark = [pytest.mark.api, pytest.mark.usefixtures("crds")]

NAME = "qwen-decode"


def _scale(kubectl: Kubectl, namespace: str) -> dict[str, dict[str, object]]:
    path = f"/apis/kvpool.dev/v1alpha1/namespaces/{namespace}/inferenceroles/{NAME}/scale"
    return json.loads(kubectl.run("get", "--raw", path))  # type: ignore[no-any-return]


def test_scale_sets_the_replicas_of_a_role_that_decides_itself(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(role(NAME), namespace=namespace)
    kubectl.run("scale", f"ir/{NAME}", "--replicas=6", "--namespace", namespace)
    assert kubectl.get_json("ir", NAME, namespace)["spec"] == {"replicas": 6}
    assert _scale(kubectl, namespace)["spec"] == {"replicas": 6}


def test_scale_reports_what_the_operator_found_so_that_autoscalers_work(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(role(NAME), namespace=namespace)
    status = {"replicas": 4, "readyReplicas": 3, "selector": "kvpool.dev/group=qwen,kvpool.dev/role=decode"}
    patch = json.dumps({"status": status})
    flags = ("--namespace", namespace, "--subresource=status", "--type=merge", "-p", patch)
    kubectl.run("patch", "ir", NAME, *flags)
    assert _scale(kubectl, namespace)["status"] == {"replicas": 4, "selector": status["selector"]}


@pytest.mark.parametrize("replicas", [0, 2, 4])
def test_scale_is_refused_where_the_group_fixes_the_number(kubectl: Kubectl, namespace: str, replicas: int) -> None:
    kubectl.apply(role(NAME, replicas=3, groupReplicas=3), namespace=namespace)
    answer = kubectl.refusal("scale", f"ir/{NAME}", f"--replicas={replicas}", "--namespace", namespace)
    assert "spec.replicas" in answer
    assert "the InferenceGroup fixes this role's replicas: change spec.roles[].replicas there" in answer
    assert kubectl.get_json("ir", NAME, namespace)["spec"]["replicas"] == 3


def test_a_negative_scale_is_refused(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(role(NAME), namespace=namespace)
    patch = '{"spec": {"replicas": -1}}'
    flags = ("--namespace", namespace, "--subresource=scale", "--type=merge", "-p", patch)
    assert "spec.replicas" in kubectl.refusal("patch", "ir", NAME, *flags)
