"""One operator acts at a time: a Lease, held by renewing it.

Promises, each tested with real processes or a clock of the test's own:

- a candidate takes the Lease only when it is free, released, or has not changed for its whole duration *on the
  candidate's own monotonic clock*: clocks of machines are never compared;
- a holder that cannot renew within the deadline stops acting before any candidate may take over;
- a clean stop releases the Lease, so that the next holder need not wait for it to expire.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvpool_operator.api.names import MANAGED_BY, MANAGED_BY_LABEL
from kvpool_operator.cluster.api import ClusterAPI
from kvpool_operator.cluster.errors import ApiError, ConflictError

log = logging.getLogger("kvpool")


class LeadershipLost(Exception):
    """The Lease could not be renewed in time, or somebody else has it."""


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds. `renew_within` is below `duration` by what a request in flight may still take."""

    duration: int = 15
    renew_within: float = 10.0
    renew_every: float = 2.0
    try_every: float = 1.0


class LeaseElector:
    """One candidate for one Lease."""

    def __init__(
        self,
        api: ClusterAPI,
        namespace: str,
        name: str,
        identity: str,
        now: Callable[[], str],
        monotonic: Callable[[], float],
        timing: LeaseTiming | None = None,
    ) -> None:
        """`now` is the wall clock in RFC 3339 for people who read the Lease; decisions use `monotonic` alone."""
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._now = now
        self._monotonic = monotonic
        self._timing = timing or LeaseTiming()
        self._seen: tuple[str, float] | None = None
        """The Lease's resourceVersion when it was last seen to change, and when that was."""

    async def acquire(self) -> None:
        """Return once the Lease is ours."""
        while True:
            try:
                if await self._try_acquire():
                    log.info("leading as %s", self._identity)
                    return
            except ApiError as error:
                log.warning("cannot read or take the lease: %s", error)
            await asyncio.sleep(self._timing.try_every)

    async def hold(self) -> None:
        """Renew for ever; raises LeadershipLost when that fails for too long."""
        renewed = self._monotonic()
        while True:
            await asyncio.sleep(self._timing.renew_every)
            remaining = renewed + self._timing.renew_within - self._monotonic()
            if remaining <= 0:
                raise LeadershipLost(f"the lease was not renewed for {self._timing.renew_within:g} s")
            try:
                await asyncio.wait_for(self._renew(), timeout=remaining)
                renewed = self._monotonic()
            except (ApiError, TimeoutError) as error:
                log.warning("cannot renew the lease: %s", error or type(error).__name__)

    async def release(self) -> None:
        """Give the Lease back, if it is still ours; a failure only makes the next holder wait longer."""
        try:
            lease = await self._api.get("Lease", self._namespace, self._name)
            if lease and _holder(lease) == self._identity:
                await self._write(lease, holder="")
        except ApiError as error:
            log.warning("cannot release the lease: %s", error)

    async def _try_acquire(self) -> bool:
        lease = await self._api.get("Lease", self._namespace, self._name)
        if lease is None:
            await self._api.create(self._new_lease())
            return True
        if _holder(lease) not in ("", self._identity) and not self._expired(lease):
            return False
        try:
            await self._write(lease, holder=self._identity)
        except ConflictError:
            return False
        return True

    def _expired(self, lease: Mapping[str, Any]) -> bool:
        """Nobody has touched it for its duration, as far as this clock has watched."""
        version, moment = lease["metadata"]["resourceVersion"], self._monotonic()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, moment)
            return False
        duration = lease["spec"].get("leaseDurationSeconds") or self._timing.duration
        return moment - self._seen[1] > duration

    async def _renew(self) -> None:
        lease = await self._api.get("Lease", self._namespace, self._name)
        if lease is None or _holder(lease) != self._identity:
            raise LeadershipLost(f"the lease is {_holder(lease) if lease else 'gone'}'s now")
        await self._write(lease, holder=self._identity)

    async def _write(self, lease: Mapping[str, Any], holder: str) -> None:
        spec: dict[str, Any] = {
            "holderIdentity": holder or None,  # the API server takes no empty name
            "leaseDurationSeconds": self._timing.duration,
            "renewTime": self._now(),
        }
        if holder and holder != _holder(lease):
            transitions = int(lease["spec"].get("leaseTransitions") or 0)
            spec |= {"acquireTime": self._now(), "leaseTransitions": transitions + 1}
        version = lease["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": spec}
        await self._api.merge_patch("Lease", self._namespace, self._name, patch)

    def _new_lease(self) -> dict[str, Any]:
        moment = self._now()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {MANAGED_BY_LABEL: MANAGED_BY},
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": self._timing.duration,
                "acquireTime": moment,
                "renewTime": moment,
                "leaseTransitions": 0,
            },
        }


def _holder(lease: Mapping[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
