"""EndpointSlices (or a static document) in, targets out.

A target is one API server of one engine pod: a pod with `n` data-parallel ranks that serves ports `api-0..api-<n-1>` is
`n` targets. Everything here is pure, so every rule about readiness can be read and tested in one place.

Readiness is `serving` and not `terminating`. `ready` is only the fallback where an old cluster leaves `serving` out:
a Service with `publishNotReadyAddresses` reports `ready: true` for every pod, while `serving` always tells the truth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

GROUP_LABEL = "kvpool.dev/group"
ROLE_LABEL = "kvpool.dev/role"
ROLE_TYPE_LABEL = "kvpool.dev/role-type"
PAIRING_LABEL = "kvpool.dev/pairing"
SLOT_LABEL = "kvpool.dev/slot"

_API_PORT = re.compile(r"api-(\d+)")


class RoleType(StrEnum):
    """What an engine does with a request."""

    PREFILL = "Prefill"
    DECODE = "Decode"
    MIXED = "Mixed"


_ROLE_TYPES = frozenset(member.value for member in RoleType)


class Phase(StrEnum):
    """What Kubernetes says about a target; the best phase has the highest rank in `_RANK`."""

    READY = "Ready"
    NOT_READY = "NotReady"
    TERMINATING = "Terminating"


# One pod may stand in two slices while a controller moves it. Terminating never comes back, so it wins.
_RANK = {Phase.NOT_READY: 0, Phase.READY: 1, Phase.TERMINATING: 2}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API port of one engine pod, as discovery sees it."""

    key: str
    pod: str
    role_type: RoleType
    role: str
    pairing: str
    slot: str
    rank: int
    address: str
    port: int
    phase: Phase

    @property
    def authority(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The target's base URL without a trailing slash."""
        return f"http://{self.authority}"


class BadTargets(ValueError):
    """A static target document that cannot be used; the message says where and why."""


def endpoints_from_slices(slices: Iterable[Mapping[str, Any]]) -> tuple[Endpoint, ...]:
    """All targets of the given EndpointSlices, each once, in a stable order."""
    found: dict[str, Endpoint] = {}
    for piece in slices:
        for endpoint in _of_slice(piece):
            known = found.get(endpoint.key)
            if known is None or _RANK[endpoint.phase] > _RANK[known.phase]:
                found[endpoint.key] = endpoint
    return tuple(sorted(found.values(), key=lambda e: (e.role_type, e.pairing, e.pod, e.rank, e.key)))


def _of_slice(piece: Mapping[str, Any]) -> Iterable[Endpoint]:
    labels = (piece.get("metadata") or {}).get("labels") or {}
    role_type = labels.get(ROLE_TYPE_LABEL)
    if role_type not in _ROLE_TYPES:
        return
    ports = list(_api_ports(piece.get("ports") or ()))
    for entry in piece.get("endpoints") or ():
        addresses = entry.get("addresses") or ()
        if not addresses:
            continue  # an evicted pod can lose its address before it is deleted
        reference = entry.get("targetRef") or {}
        pod = str(reference.get("name") or addresses[0])
        # The uid tells a replacement on the same host address and port from the pod it replaces.
        identity = str(reference.get("uid") or addresses[0])
        for rank, port in ports:
            yield Endpoint(
                key=f"{identity}/{port}",
                pod=pod,
                role_type=RoleType(role_type),
                role=str(labels.get(ROLE_LABEL, "")),
                pairing=str(labels.get(PAIRING_LABEL, "")),
                slot=str(labels.get(SLOT_LABEL, "")),
                rank=rank,
                address=str(addresses[0]),
                port=port,
                phase=_phase(entry.get("conditions") or {}),
            )


def _api_ports(ports: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, int]]:
    for port in ports:
        match = _API_PORT.fullmatch(str(port.get("name") or ""))
        if match and port.get("port"):
            yield int(match[1]), int(port["port"])


def _phase(conditions: Mapping[str, Any]) -> Phase:
    if conditions.get("terminating"):
        return Phase.TERMINATING
    serving = conditions.get("serving")
    if serving is None:
        serving = conditions.get("ready") is not False  # absent means ready, says the API
    return Phase.READY if serving else Phase.NOT_READY


def endpoints_from_static(document: object) -> tuple[Endpoint, ...]:
    """The targets of a static document: `{"targets": [{"type": "Prefill", "url": "http://10.0.0.1:8000"}]}`.

    `pairing` (default empty) and `name` (default the URL's authority) are optional.
    """
    entries = document.get("targets") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise BadTargets('expected an object with a list "targets"')
    found: dict[str, Endpoint] = {}
    for index, entry in enumerate(entries):
        endpoint = _static_endpoint(entry, f"targets[{index}]")
        if endpoint.key in found:
            raise BadTargets(f"targets[{index}]: {endpoint.url} is listed twice")
        found[endpoint.key] = endpoint
    return tuple(found.values())


def _static_endpoint(entry: object, where: str) -> Endpoint:
    if not isinstance(entry, dict):
        raise BadTargets(f"{where}: expected an object")
    unknown = set(entry) - {"type", "url", "pairing", "name"}
    if unknown:
        raise BadTargets(f"{where}: unknown member {sorted(unknown)[0]!r}")
    role_type = entry.get("type")
    if role_type not in _ROLE_TYPES:
        raise BadTargets(f"{where}.type: expected one of {', '.join(RoleType)}, got {role_type!r}")
    host, port = _static_url(entry.get("url"), where)
    return Endpoint(
        key=f"{host}/{port}",
        pod=str(entry.get("name") or f"{host}:{port}"),
        role_type=RoleType(role_type),
        role=str(role_type).lower(),
        pairing=str(entry.get("pairing", "")),
        slot="",
        rank=0,
        address=host,
        port=port,
        phase=Phase.READY,
    )


def _static_url(value: object, where: str) -> tuple[str, int]:
    problem = f"{where}.url: expected http://HOST:PORT, got {value!r}"
    if not isinstance(value, str):
        raise BadTargets(problem)
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadTargets(problem) from error
    if parts.scheme != "http" or not host or not port or parts.path.strip("/") or parts.query or parts.username:
        raise BadTargets(problem)
    return host, port
