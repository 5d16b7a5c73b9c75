"""`kubectl kvpool`: kubectl finds this program by its name, `kubectl-kvpool`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from kvpool_operator.api.conditions import UPDATE_AVAILABLE
from kvpool_operator.api.names import UPGRADE_ANNOTATION
from kvpool_operator.cluster.api import ClusterAPI, KubernetesAPI
from kvpool_operator.cluster.errors import ApiError

KINDS = {
    **dict.fromkeys(("kvp", "kvpool", "kvpools"), "KVPool"),
    **dict.fromkeys(("ig", "inferencegroup", "inferencegroups"), "InferenceGroup"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; exit code 1 with one line when something is not as it must be."""
    options = _parse(sys.argv[1:] if argv is None else argv)
    try:
        return asyncio.run(_run(options))
    except (ApiError, config.ConfigException, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kubectl kvpool", description="Pools and groups of kvpool.")
    commands = parser.add_subparsers(dest="command", required=True)
    upgrade = commands.add_parser(
        "upgrade",
        help="let this operator version render an object's pods anew",
        description="A new operator version changes no running pod by itself; the condition UpdateAvailable says "
        "what it would render differently. This applies it: pods whose template differs are replaced.",
    )
    upgrade.add_argument("object", metavar="KIND/NAME", help="such as ig/qwen or kvp/shared")
    upgrade.add_argument("-n", "--namespace", help="its namespace; the context's when left out")
    upgrade.add_argument("--kubeconfig", help="kubeconfig file; as kubectl finds it when left out")
    return parser.parse_args(argv)


async def _run(options: argparse.Namespace) -> int:
    configuration = Configuration()
    await config.load_kube_config(config_file=options.kubeconfig, client_configuration=configuration)
    async with ApiClient(configuration=configuration) as client:
        return await upgrade(
            KubernetesAPI(client), options.object, options.namespace or _namespace(options.kubeconfig), _now()
        )


async def upgrade(api: ClusterAPI, reference: str, namespace: str, now: str) -> int:
    """Mark the object, so that its inputs change and everything is rendered anew."""
    kind, name = _reference(reference)
    obj = await api.get(kind, namespace, name)
    if obj is None:
        raise ValueError(f"there is no {kind} {name} in namespace {namespace}")
    outdated = _outdated(obj)
    if not outdated:
        print(f"{reference}: nothing to upgrade, this operator version renders it as it runs")
        return 0
    await api.merge_patch(kind, namespace, name, {"metadata": {"annotations": {UPGRADE_ANNOTATION: now}}})
    print(f"{reference}: {outdated}")
    return 0


def _reference(text: str) -> tuple[str, str]:
    kind, _, name = text.partition("/")
    if kind.lower() not in KINDS or not name:
        raise ValueError(f"{text!r} is not KIND/NAME; write ig/NAME or kvp/NAME")
    return KINDS[kind.lower()], name


def _outdated(obj: dict[str, Any]) -> str:
    """The message of UpdateAvailable where that is true."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((str(c["message"]) for c in conditions if c["type"] == UPDATE_AVAILABLE and c["status"] == "True"), "")


def _namespace(kubeconfig: str | None) -> str:
    _, active = config.list_kube_config_contexts(config_file=kubeconfig)
    return str(active["context"].get("namespace") or "default")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


if __name__ == "__main__":
    sys.exit(main())
