"""Objects put before the real API server without kubectl: its verdict alone, a few milliseconds each."""

from __future__ import annotations

import json
from pathlib import Path

from kubernetes import config

from kvpool_operator.cluster.resources import resource_of
from tests.support.objects import Object

_QUERY = "dryRun=All&fieldValidation=Strict"


class Admission:
    """Dry-run creations under strict validation; nothing is ever stored."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        self._client = config.new_client_from_config(str(kubeconfig))
        self._namespace = namespace

    def verdict(self, item: Object) -> str:
        """What the API server says against the object; nothing if it would take it."""
        url = f"{self._client.configuration.host}{resource_of(item).path(self._namespace)}?{_QUERY}"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        for auth in self._client.configuration.auth_settings().values():
            headers[auth["key"]] = auth["value"]
        body = {**item, "metadata": {**item["metadata"], "namespace": self._namespace}}
        response = self._client.rest_client.request("POST", url, headers=headers, body=body)
        answer = json.loads(response.read())
        if response.status in (400, 422):
            return str(answer["message"])
        assert response.status == 201, answer
        return ""
