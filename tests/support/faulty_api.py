"""The client port with one fault in it: the n-th matching request crashes the operator, fails, or loses its answer.

The request that is hit reaches the real API server or does not, as the fault says; everything else passes untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from kvpool_operator.cluster.api import ClusterAPI, Object
from kvpool_operator.cluster.errors import TransientError, error_from_status

Answer = TypeVar("Answer")


class Crash(BaseException):
    """The process died here: whatever it held in memory is gone."""


class Mode(Enum):
    """What happens to the request that is hit."""

    CRASH_BEFORE = "crash before it is sent"
    CRASH_AFTER = "crash after it took effect"
    CONFLICT = "409"
    TOO_MANY = "429"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    TIMEOUT = "time-out before it took effect"
    LOST_ANSWER = "committed, and the answer is lost"
    DELAY = "delayed"


_STATUS = {Mode.CONFLICT: 409, Mode.TOO_MANY: 429, Mode.SERVER_ERROR: 500, Mode.UNAVAILABLE: 503}
WRITES = frozenset({"create", "apply", "merge", "json", "delete"})


@dataclass(frozen=True, slots=True)
class Fault:
    """Hit the n-th request (from 1) among those of these verbs and, if given, this kind."""

    mode: Mode
    number: int
    verbs: frozenset[str] = WRITES
    kind: str | None = None


@dataclass(slots=True)
class FaultyAPI:
    """ClusterAPI around another, with at most one fault, and a log of every request that took effect."""

    inner: ClusterAPI
    fault: Fault | None = None
    effects: list[tuple[str, str, str]] = field(default_factory=list)
    """Verb, kind and name of each write that reached the API server and was taken."""
    seen: int = 0
    struck: bool = False

    async def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        return await self._pass("get", kind, name, lambda: self.inner.get(kind, namespace, name))

    async def list(self, kind: str, namespace: str | None, selector: str = "") -> list[Object]:
        return await self._pass("list", kind, "", lambda: self.inner.list(kind, namespace, selector))

    async def create(self, body: Mapping[str, Any]) -> Object:
        return await self._pass("create", body["kind"], body["metadata"]["name"], lambda: self.inner.create(body))

    async def apply(self, body: Mapping[str, Any], subresource: str | None = None) -> Object:
        name = body["metadata"]["name"]
        return await self._pass("apply", body["kind"], name, lambda: self.inner.apply(body, subresource))

    async def merge_patch(self, kind: str, namespace: str, name: str, patch: Mapping[str, Any]) -> Object:
        return await self._pass("merge", kind, name, lambda: self.inner.merge_patch(kind, namespace, name, patch))

    async def json_patch(self, kind: str, namespace: str, name: str, patch: Sequence[Mapping[str, Any]]) -> Object:
        return await self._pass("json", kind, name, lambda: self.inner.json_patch(kind, namespace, name, patch))

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        await self._pass("delete", kind, name, lambda: self.inner.delete(kind, namespace, name, uid))

    async def _pass(self, verb: str, kind: str, name: str, send: Callable[[], Awaitable[Answer]]) -> Answer:
        mode = self._struck_by(verb, kind)
        if mode is Mode.CRASH_BEFORE:
            raise Crash(f"before {verb} {kind} {name}")
        if mode in _STATUS:
            raise error_from_status(_STATUS[mode], {"reason": "Injected", "message": f"injected on {verb} {kind}"})
        if mode is Mode.TIMEOUT:
            raise TransientError(0, "Injected", f"no answer to {verb} {kind}")
        if mode is Mode.DELAY:
            await asyncio.sleep(0.2)  # the fault itself, not a wait
        answer = await send()
        if verb in WRITES:
            self.effects.append((verb, kind, name))
        if mode is Mode.CRASH_AFTER:
            raise Crash(f"after {verb} {kind} {name}")
        if mode is Mode.LOST_ANSWER:
            raise TransientError(0, "Injected", f"the answer to {verb} {kind} is lost")
        return answer

    def _struck_by(self, verb: str, kind: str) -> Mode | None:
        fault = self.fault
        if fault is None or self.struck or verb not in fault.verbs or fault.kind not in (None, kind):
            return None
        self.seen += 1
        if self.seen != fault.number:
            return None
        self.struck = True
        return fault.mode
