"""Objects put before the real API server without kubectl: its verdict alone, a few milliseconds each."""

from __future__ import annotations

import json
from pathlib import Path

from kubernetes import client, config

from kvpool_operator.api.crd import KINDS
from tests.support.objects import Object

_PLURALS = {kind.name: kind.plural for kind in KINDS}


class Admission:
    """Dry-run creations under strict validation; nothing is ever stored."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        self._api = client.CustomObjectsApi(config.new_client_from_config(str(kubeconfig)))
        self._namespace = namespace

    def verdict(self, item: Object) -> str:
        """What the API server says against the object; nothing if it would take it."""
        group, version = item["apiVersion"].split("/")
        target = (group, version, self._namespace, _PLURALS[item["kind"]], item)
        try:
            self._api.create_namespaced_custom_object(*target, dry_run="All", field_validation="Strict")
        except client.ApiException as refused:
            if refused.status not in (400, 422):
                raise
            return str(json.loads(refused.body)["message"])
        return ""
