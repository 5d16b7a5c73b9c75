"""Waiting for the store, so that the engine's first attach finds it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from kvpool_connector.launch.failure import LaunchError

_CONNECT_SECONDS = 2.0
_PAUSE_SECONDS = 0.5
_SAY_EVERY_SECONDS = 5.0


def endpoints(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a master's address: `host:port`, or `etcd://host:port;host:port`."""
    result = []
    for part in master.rpartition("://")[2].split(";"):
        host, _, port = part.rpartition(":")
        if not host or not port.isdigit():
            raise LaunchError(f"MOONCAKE_MASTER={master!r} is no host:port")
        result.append((host.strip("[]"), int(port)))
    return result


def wait_for_store(
    master: str,
    limit: float,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> float:
    """Return, after how many seconds, when the master takes a connection. Raises LaunchError at the limit.

    A name that does not resolve yet is a store that is not there yet.
    """
    targets = endpoints(master)
    began = clock()
    said = began
    while True:
        problems = [problem for host, port in targets if (problem := _refusal(host, port))]
        waited = clock() - began
        if len(problems) < len(targets):
            return waited
        if waited >= limit:
            raise LaunchError(
                f"the store at {master} did not answer within {limit:.0f} s ({problems[0]}): is the pool Ready?"
            )
        if clock() - said >= _SAY_EVERY_SECONDS:
            said = clock()
            say(f"waiting for the store at {master}: {waited:.0f} of {limit:.0f} s ({problems[0]})")
        sleep(_PAUSE_SECONDS)


def _refusal(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""
