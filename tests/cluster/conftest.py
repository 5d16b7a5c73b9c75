"""The operator on a real control plane with simulated nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.kubectl import Kubectl, Program
from tests.support.objects import Object
from tests.support.operator_account import operator_kubeconfig
from tests.support.operator_process import OperatorProcess, running_operator

SYSTEM = "kvpool-system"


@pytest.fixture(scope="session")
def operator(
    kubectl: Kubectl, helm: Program, crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """One operator for the whole tier, watching every namespace with the rights that the chart gives it."""
    folder = tmp_path_factory.mktemp("operator")
    kubectl.run("apply", "-f", "-", stdin=json.dumps(namespace_object(SYSTEM)))
    kubeconfig = operator_kubeconfig(kubectl, helm, folder, SYSTEM)
    log = folder / "operator.log"
    with running_operator(kubeconfig, log, ["--resync-seconds=15"]) as process:
        yield process
    text = log.read_text()
    assert "Traceback" not in text, text[-5000:]
    assert "Forbidden" not in text, text[-5000:]


def namespace_object(name: str) -> Object:
    """A namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@dataclass(frozen=True, slots=True)
class World:
    """One namespace with the operator at work in it."""

    kubectl: Kubectl
    namespace: str

    def apply(self, *objects: Object) -> None:
        """Apply as a user would."""
        self.kubectl.apply(*objects, namespace=self.namespace)

    def get(self, kind: str, name: str) -> Any:
        """One object."""
        return self.kubectl.get_json(kind, name, self.namespace)

    def list(self, kind: str, selector: str = "") -> list[Any]:
        """Objects of a kind."""
        options = {"selector": selector} if selector else {}
        return list(self.kubectl.get_json(kind, None, self.namespace, **options)["items"])

    def run(self, *arguments: str) -> str:
        """kubectl in the namespace."""
        return self.kubectl.run("--namespace", self.namespace, *arguments)

    def condition(self, kind: str, name: str, type_: str = "Ready") -> dict[str, Any]:
        """One condition; empty before the first status."""
        obj = self.get(kind, name)
        conditions = (obj.get("status") or {}).get("conditions") or []
        current = (obj.get("status") or {}).get("observedGeneration") == obj["metadata"]["generation"]
        return next((c for c in conditions if c["type"] == type_ and current), {})

    def wait_condition(self, kind: str, name: str, type_: str, status: str, seconds: float = 60) -> dict[str, Any]:
        """Wait until a condition has a status for the present generation; returns it."""
        what = f"{kind} {name} to have {type_}={status}"

        def reached() -> bool:
            return self.condition(kind, name, type_).get("status") == status

        try:
            self.kubectl.wait_for(what, reached, seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}; it says {self.condition(kind, name)}") from None
        return self.condition(kind, name, type_)

    def wait_ready(self, *objects: Object, seconds: float = 60) -> None:
        """Wait until each object is Ready."""
        for obj in objects:
            self.wait_condition(obj["kind"], obj["metadata"]["name"], "Ready", "True", seconds)

    def wait_for(self, what: str, condition: Any, seconds: float = 30) -> None:
        """Wait for anything."""
        self.kubectl.wait_for(what, condition, seconds)

    def pods(self, role: str) -> set[str]:
        """Uids of a role's living pods."""
        return {
            pod["metadata"]["uid"]
            for pod in self.list("pods", f"kvpool.dev/role={role}")
            if "deletionTimestamp" not in pod["metadata"]
        }


@pytest.fixture
def world(operator: OperatorProcess, kubectl: Kubectl, namespace: str) -> World:
    """A fresh namespace."""
    return World(kubectl, namespace)
