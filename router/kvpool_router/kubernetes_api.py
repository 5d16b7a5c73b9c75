"""The API server as discovery sees it: list and watch EndpointSlices as plain dicts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from kubernetes.aio import client
from kubernetes.aio import config as kube_config

from kvpool_router.config import Config
from kvpool_router.slices import Expired

_REQUEST_SECONDS = 10.0
_WATCH_SLACK_SECONDS = 15.0


class ApiError(Exception):
    """An answer of the API server that is neither success nor 410."""


class KubernetesSlices:
    """EndpointSlices of one namespace by label selector."""

    def __init__(self, api: Any, namespace: str, selector: str, watch_seconds: int) -> None:
        self._api = api
        self._namespace = namespace
        self._selector = selector
        self._watch_seconds = watch_seconds

    @classmethod
    async def connect(cls, config: Config, selector: str, watch_seconds: int) -> KubernetesSlices:
        """Load credentials: the given kubeconfig, else the pod's service account."""
        settings = client.Configuration()
        if config.kubeconfig is not None:
            await kube_config.load_kube_config(str(config.kubeconfig), client_configuration=settings)
        else:
            kube_config.load_incluster_config(client_configuration=settings)
        api = client.DiscoveryV1Api(client.ApiClient(settings))
        return cls(api, config.namespace, selector, watch_seconds)

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        """All slices of the group and the list's resourceVersion."""
        response = await self._get(_request_timeout=_REQUEST_SECONDS)
        try:
            document = json.loads(await response.read())
        finally:
            response.release()
        return document["items"], document["metadata"]["resourceVersion"]

    async def watch(self, resource_version: str) -> AsyncIterator[dict[str, Any]]:
        """Events after `resource_version` until the server ends the watch."""
        response = await self._get(
            watch=True,
            resource_version=resource_version,
            allow_watch_bookmarks=True,
            timeout_seconds=self._watch_seconds,
            _request_timeout=self._watch_seconds + _WATCH_SLACK_SECONDS,  # the client takes floats alone
        )
        try:
            async for line in _lines(response):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    _raise_for(event["object"].get("code"), event["object"].get("message"))
                yield event
        finally:
            response.close()

    async def _get(self, **options: Any) -> Any:
        response = await self._api.list_namespaced_endpoint_slice_without_preload_content(
            self._namespace, label_selector=self._selector, **options
        )
        if response.status != 200:
            text = (await response.read()).decode(errors="replace")
            _raise_for(response.status, text)
        return response


def _raise_for(code: int | None, message: str | None) -> None:
    if code == 410:
        raise Expired
    raise ApiError(f"API server answered {code}: {message}")


async def _lines(response: Any) -> AsyncIterator[bytes]:
    """Whole lines of any length; the stream's own readline has a limit."""
    rest = b""
    async for chunk in response.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
