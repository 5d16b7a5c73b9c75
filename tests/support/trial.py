"""One scenario in one namespace of a real API server, with at most one fault: what a user does, and what is left.

The operator's reconcilers run in this process, one pass after another, until a pass writes nothing. Controllers of
workloads are off here; a stepper says of each Deployment and StatefulSet that its pods are ready.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvpool_operator.app.main import utc_now
from kvpool_operator.cluster.api import KubernetesAPI
from kvpool_operator.cluster.errors import ApiError, ObserveAgainError
from kvpool_operator.cluster.resources import GROUP_CHILDREN, POOL_CHILDREN, resource_of
from kvpool_operator.plan.facts import Defaults
from kvpool_operator.reconcile.context import Context
from kvpool_operator.reconcile.group import reconcile_group
from kvpool_operator.reconcile.pool import reconcile_pool
from tests.support.faulty_api import Crash, Fault, FaultyAPI
from tests.support.objects import Object

DEFAULTS = Defaults("connector:1", "router:1")
KINDS = tuple(dict.fromkeys((*POOL_CHILDREN, *GROUP_CHILDREN)))
MOST_PASSES = 60
_WORKLOADS = ("Deployment", "StatefulSet")
_NOT_OURS = {"kube-root-ca.crt", "default"}


class UserApi(KubernetesAPI):
    """What users and controllers do: writes that are not the operator's."""

    async def put(self, obj: Object, namespace: str) -> None:
        """Create or replace the spec, as `kubectl replace` would."""
        body = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
        existing = await self.get(obj["kind"], namespace, obj["metadata"]["name"])
        if existing is None:
            await self.create(body)
        else:
            meta = {**existing["metadata"], **{k: v for k, v in body["metadata"].items() if k != "namespace"}}
            await self._request_object("PUT", {**body, "metadata": meta})

    async def remove(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object by name."""
        if existing := await self.get(kind, namespace, name):
            await self.delete(kind, namespace, name, existing["metadata"]["uid"])

    async def say_ready(self, obj: Object) -> bool:
        """Write the status of a workload whose pods are all ready; returns whether that was news."""
        replicas = obj["spec"].get("replicas", 1)
        status = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas}
        status = {**status, "observedGeneration": obj["metadata"]["generation"]}
        present = obj.get("status") or {}
        if all(present.get(key, 0) == value for key, value in status.items()):
            return False
        await self._request_object("PUT", {**obj, "status": {**present, **status}}, "status")
        return True

    async def _request_object(self, verb: str, body: Mapping[str, Any], subresource: str | None = None) -> Object:
        meta = body["metadata"]
        return await self._request(
            verb, resource_of(body), meta["namespace"], meta["name"], subresource=subresource, body=body
        )


@dataclass(slots=True)
class Trial:
    """The namespace, the faulty port of the operator, and the port of everybody else."""

    user: UserApi
    api: FaultyAPI
    second: FaultyAPI | None = None
    """A second operator that acts at the same time, as when a Lease was taken over too early."""
    namespace: str = field(default_factory=lambda: f"fault-{uuid.uuid4().hex[:8]}")
    crashes: int = 0

    async def __aenter__(self) -> Trial:
        await self.user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        return self

    async def __aexit__(self, *error: object) -> None:
        namespace = await self.user.get("Namespace", None, self.namespace)
        if namespace:
            await self.user.delete("Namespace", None, self.namespace, namespace["metadata"]["uid"])  # type: ignore[arg-type]

    async def settle(self) -> None:
        """Let the operator and the stepper work until neither has anything to do."""
        for _ in range(MOST_PASSES):
            before = self.count()
            operators = [api for api in (self.api, self.second) if api]
            failed = any(await asyncio.gather(*(self._operator_pass(api) for api in operators)))
            moved = await self._step_workloads()
            if not failed and not moved and self.count() == before:
                return
        raise AssertionError(f"not at rest after {MOST_PASSES} passes: {self.api.effects[-10:]}")

    def count(self) -> int:
        """Writes so far."""
        return len(self.effects())

    def effects(self) -> list[tuple[str, str, str]]:
        """Every write of the operator, or of both, that took effect."""
        return [*self.api.effects, *(self.second.effects if self.second else [])]

    async def _operator_pass(self, api: FaultyAPI) -> bool:
        """Each object once, as a worker would; returns whether something must be tried again."""
        context = Context(api, DEFAULTS, (self.namespace,), utc_now)
        failed = False
        for kind, reconcile in (("KVPool", reconcile_pool), ("InferenceGroup", reconcile_group)):
            for obj in await self.user.list(kind, self.namespace):
                try:
                    await reconcile(context, self.namespace, obj["metadata"]["name"])
                except Crash:
                    self.crashes += 1
                    return True
                except (ObserveAgainError, ApiError):
                    failed = True
        return failed

    async def _step_workloads(self) -> bool:
        moved = False
        for kind in _WORKLOADS:
            for obj in await self.user.list(kind, self.namespace):
                if "deletionTimestamp" not in obj["metadata"]:
                    moved |= await self.user.say_ready(obj)
        return moved

    async def left(self) -> list[Object]:
        """Every object of the kinds we know."""
        lists = await asyncio.gather(
            *(self.user.list(kind, self.namespace) for kind in ("KVPool", "InferenceGroup", *KINDS))
        )
        return [o for items in lists for o in items if o["metadata"]["name"] not in _NOT_OURS]

    async def gone(self, what: Callable[[Object], bool]) -> None:
        """Wait until no object is left of which `what` is true; the garbage collector is real."""
        async with asyncio.timeout(30):
            while any(what(obj) for obj in await self.left()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def end_state(self) -> str:
        """All that is left, without what differs between any two runs."""
        text = json.dumps(sorted((_essence(obj) for obj in await self.left()), key=str), sort_keys=True, indent=1)
        return masked(text, self.namespace)


def masked(text: str, namespace: str) -> str:
    """Names of namespaces, uids, times and the digests that come of them, all alike."""
    text = text.replace(namespace, "NAMESPACE")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return re.sub(r"\b[0-9a-f]{8}\b", "DIGEST", text)


def _essence(obj: Object) -> Object:
    meta = {k: obj["metadata"].get(k) for k in ("name", "labels", "annotations", "ownerReferences")}
    rest = {k: v for k, v in obj.items() if k not in ("metadata", "apiVersion")}
    if isinstance(rest.get("spec"), dict):
        rest["spec"] = {k: v for k, v in rest["spec"].items() if k not in ("clusterIP", "clusterIPs")}
    rest.pop("status" if obj["kind"] in _WORKLOADS else "", None)
    return {**rest, "metadata": meta}


Action = Callable[[Trial], Awaitable[None]]


async def run_trial(
    user: UserApi, actions: tuple[Action, ...], fault: Fault | None, *, leaders: int = 1
) -> tuple[Trial, str]:
    """Carry a scenario out; each action is followed by rest. Returns the trial and its end state."""
    second = FaultyAPI(user) if leaders == 2 else None
    async with Trial(user, FaultyAPI(user, fault), second) as trial:
        for action in actions:
            await action(trial)
            await trial.settle()
        return trial, await trial.end_state()
