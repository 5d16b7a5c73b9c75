"""A client port that counts what passes through it, around the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from kvpool_operator.cluster.api import ClusterAPI, KubernetesAPI, Object


class CountingAPI:
    """ClusterAPI that remembers every write, as `verb kind name`."""

    def __init__(self, inner: ClusterAPI) -> None:
        self._inner = inner
        self.writes: list[str] = []
        self.reads = 0

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        self.reads += 1
        return await self._inner.get(kind, namespace, name)

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[Object]:
        self.reads += 1
        return await self._inner.list(kind, namespace, selector)

    async def create(self, body: Mapping[str, Any]) -> Object:
        self.writes.append(f"create {body['kind']} {body['metadata']['name']}")
        return await self._inner.create(body)

    async def apply(self, body: Mapping[str, Any], subresource: str | None = None) -> Object:
        self.writes.append(f"apply {body['kind']} {body['metadata']['name']} {subresource or ''}".strip())
        return await self._inner.apply(body, subresource)

    async def merge_patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        self.writes.append(f"merge {kind} {name}")
        return await self._inner.merge_patch(kind, namespace, name, patch)

    async def json_patch(self, kind: str, namespace: str, name: str, patch: Sequence[Mapping[str, Any]]) -> Object:
        self.writes.append(f"json {kind} {name}")
        return await self._inner.json_patch(kind, namespace, name, patch)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        self.writes.append(f"delete {kind} {name}")
        await self._inner.delete(kind, namespace, name, uid)


@asynccontextmanager
async def api_client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    """The official client on the cluster of a kubeconfig."""
    configuration = Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with ApiClient(configuration=configuration) as client:
        yield client


@asynccontextmanager
async def counting_api(kubeconfig: Path) -> AsyncIterator[CountingAPI]:
    """A counting port to the cluster of a kubeconfig."""
    async with api_client(kubeconfig) as client:
        yield CountingAPI(KubernetesAPI(client))
