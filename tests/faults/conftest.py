"""A real API server whose only controllers are the garbage collector and that of namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from tests.conftest import devcluster
from tests.support.trial import UserApi

AT_A_TIME = 8


@pytest.fixture(scope="module")
def quiet_cluster(control_plane: Path, crds: None) -> Iterator[Path]:
    """The control plane without controllers of workloads; with all of them again afterwards."""
    some = "garbage-collector-controller,namespace-controller"
    devcluster("up", "--profile", "control-plane", "--controllers", some)
    yield control_plane
    devcluster("up", "--profile", "control-plane", "--controllers", "*")


@asynccontextmanager
async def user_api(kubeconfig: Path) -> AsyncIterator[UserApi]:
    """A port to the cluster for everybody but the operator."""
    configuration = Configuration()
    await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    async with ApiClient(configuration=configuration) as client:
        yield UserApi(client)


@pytest.fixture(scope="session")
def slots() -> asyncio.Semaphore:
    """How many namespaces are at work at a time."""
    return asyncio.Semaphore(AT_A_TIME)
