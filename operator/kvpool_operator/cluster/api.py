"""The API server behind one small port: plain dicts in and out, errors by meaning, nothing retried here.

`ClusterAPI` is what the rest of the operator sees; `KubernetesAPI` speaks to a real API server through the official
client's connection handling. To change the client is to change this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from kvpool_operator.api.names import FIELD_MANAGER
from kvpool_operator.cluster.errors import NotFoundError, TransientError, error_from_status
from kvpool_operator.cluster.resources import RESOURCES, Resource, resource_of

Object = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
REQUEST_SECONDS = 30
RequestHook = Callable[[str, str, int], None]


class ClusterAPI(Protocol):
    """What reconcilers may ask of a cluster."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None where there is none."""
        ...

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[Object]:
        """All objects of a kind that match, in one namespace or in all."""
        ...

    async def create(self, body: Mapping[str, Any]) -> Object:
        """POST; AlreadyExistsError where the name is taken."""
        ...

    async def apply(self, body: Mapping[str, Any], subresource: str | None = None) -> Object:
        """Server-side apply with our field manager, forced."""
        ...

    async def merge_patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """JSON merge patch."""
        ...

    async def json_patch(self, kind: str, namespace: str, name: str, patch: Sequence[Mapping[str, Any]]) -> Object:
        """JSON patch."""
        ...

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """DELETE of exactly this object; one that is gone already is no error."""
        ...


class KubernetesAPI:
    """ClusterAPI over HTTP."""

    def __init__(self, client: ApiClient, on_request: RequestHook = lambda verb, kind, status: None) -> None:
        self._client = client
        self._on_request = on_request

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        """See ClusterAPI."""
        try:
            return await self._request("GET", RESOURCES[kind], namespace, name)
        except NotFoundError:
            return None

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[Object]:
        """See ClusterAPI. Items get back the kind that lists leave out."""
        resource = RESOURCES[kind]
        query = {"labelSelector": selector} if selector else {}
        answer = await self._request("GET", resource, namespace, None, query=query)
        return [{"apiVersion": resource.api_version, "kind": kind, **item} for item in answer["items"]]

    async def create(self, body: Mapping[str, Any]) -> Object:
        """See ClusterAPI."""
        namespace = body["metadata"].get("namespace")
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request("POST", resource_of(body), namespace, None, query=query, body=body)

    async def apply(self, body: Mapping[str, Any], subresource: str | None = None) -> Object:
        """See ClusterAPI."""
        meta = body["metadata"]
        return await self._request(
            "PATCH",
            resource_of(body),
            meta.get("namespace"),
            meta["name"],
            subresource=subresource,
            query={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY,
        )

    async def merge_patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        """See ClusterAPI."""
        return await self._patch(kind, namespace, name, patch, MERGE_PATCH)

    async def json_patch(self, kind: str, namespace: str, name: str, patch: Sequence[Mapping[str, Any]]) -> Object:
        """See ClusterAPI."""
        return await self._patch(kind, namespace, name, list(patch), JSON_PATCH)

    async def _patch(self, kind: str, namespace: str, name: str, patch: Any, content_type: str) -> Object:
        query = {"fieldManager": FIELD_MANAGER}
        return await self._request(
            "PATCH", RESOURCES[kind], namespace, name, query=query, body=patch, content_type=content_type
        )

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """See ClusterAPI."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await self._request("DELETE", RESOURCES[kind], namespace, name, body=body)
        except NotFoundError:
            return

    async def _request(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None,
        name: str | None,
        *,
        subresource: str | None = None,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        configuration = self._client.configuration
        url = configuration.host + resource.path(namespace, name, subresource)
        if query:
            url = f"{url}?{urlencode(query)}"
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        for auth in (await configuration.auth_settings()).values():
            headers[auth["key"]] = auth["value"]
        try:
            response = await self._client.rest_client.request(
                verb, url, headers=headers, body=body, _request_timeout=REQUEST_SECONDS
            )
            data = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self._on_request(verb, resource.kind, 0)
            raise TransientError(
                0, "Unreachable", f"{verb} {resource.kind}: {error or type(error).__name__}"
            ) from error
        self._on_request(verb, resource.kind, response.status)
        content = _json_object(data)
        if response.status >= 400:
            raise error_from_status(response.status, content)
        return content


def _json_object(data: bytes) -> Object:
    """The body as an object; a proxy's plain-text error becomes its message."""
    try:
        content = json.loads(data)
    except ValueError:
        return {"message": data[:300].decode(errors="replace")}
    return content if isinstance(content, dict) else {"message": str(content)[:300]}
