"""The operator's own account on a test cluster: what the chart grants, and a kubeconfig that can do no more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.support.kubectl import Kubectl, Program

CHART = Path(__file__).resolve().parents[2] / "charts" / "kvpool"
_RIGHTS = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


def operator_kubeconfig(
    kubectl: Kubectl, helm: Program, folder: Path, namespace: str, watched: Sequence[str] = ()
) -> Path:
    """Apply the chart's account and rights in a namespace, and write a kubeconfig with the account's token."""
    flags = [f"--set=watchNamespaces={{{','.join(watched)}}}"] if watched else []
    rendered = helm.run("template", f"kvpool-{namespace}", CHART, "--namespace", namespace, *flags)
    rights = [doc for doc in yaml.safe_load_all(rendered) if doc and doc["kind"] in _RIGHTS]
    account = next(doc["metadata"]["name"] for doc in rights if doc["kind"] == "ServiceAccount")
    documents = "\n---\n".join(json.dumps(doc) for doc in rights)
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=documents)
    token = kubectl.run("-n", namespace, "create", "token", account, "--duration=2h").strip()
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"] = [{"name": account, "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = account
    path = folder / f"{namespace}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
