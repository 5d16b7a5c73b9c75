"""The router's whole configuration: flags, each with an environment variable, into one frozen value.

A flag `--queue-size` is also read from `KVPOOL_ROUTER_QUEUE_SIZE`; the flag wins. Whatever is wrong stops the process
with one line that names the flag.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

ENV_PREFIX = "KVPOOL_ROUTER_"


class Transfer(StrEnum):
    """How KV gets from prefill to decode; Mixed has one leg and nothing to transfer."""

    POOL = "Pool"
    P2P = "P2P"
    MIXED = "Mixed"


class PrefillFailure(StrEnum):
    """What happens to a request whose prefill leg cannot be had: decode computes it, or it fails."""

    RECOMPUTE = "Recompute"
    FAIL = "Fail"


class ConfigError(ValueError):
    """A wrong flag or environment variable; one line, naming the flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the router was told. Seconds are floats; 0 turns a limit off where the help says so."""

    namespace: str
    group: str
    transfer: Transfer
    host: str
    port: int
    model: str
    static: Path | None
    kubeconfig: Path | None
    on_prefill_failure: PrefillFailure
    queue_timeout_seconds: float
    queue_size: int
    retries: int
    max_sequences_per_target: int
    connect_timeout_seconds: float
    request_timeout_seconds: float
    body_timeout_seconds: float
    max_body_bytes: int
    health_interval_seconds: float
    health_timeout_seconds: float
    shutdown_delay_seconds: float
    drain_seconds: float


def _number(minimum: float, maximum: float = math.inf) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not minimum <= value <= maximum or math.isinf(value):
            raise argparse.ArgumentTypeError(f"expected a number {_range(minimum, maximum)}, got {text!r}")
        return value

    return parse


def _integer(minimum: int, maximum: float = math.inf) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"expected an integer {_range(minimum, maximum)}, got {text!r}")
        return int(text)

    return parse


def _range(minimum: float, maximum: float) -> str:
    return f">= {minimum:g}" if math.isinf(maximum) else f"between {minimum:g} and {maximum:g}"


def _one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    def parse(text: str) -> StrEnum:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(kind)}, got {text!r}") from None

    return parse


@dataclass(frozen=True, slots=True)
class Flag:
    """One option: name, default as typed, how its text becomes a value, metavar and help."""

    name: str
    default: str | None
    parse: Callable[[str], Any]
    metavar: str
    help: str

    @property
    def variable(self) -> str:
        """The environment variable that stands in for the flag."""
        return ENV_PREFIX + self.name.upper().replace("-", "_")


FLAGS: tuple[Flag, ...] = (
    Flag("namespace", "", str, "NAME", "namespace of the InferenceGroup; its EndpointSlices are watched there"),
    Flag("group", "", str, "NAME", "name of the InferenceGroup (label kvpool.dev/group on the slices)"),
    Flag("transfer", "Pool", _one_of(Transfer), "KIND", "Pool, P2P or Mixed: how KV gets from prefill to decode"),
    Flag("host", "", str, "ADDRESS", "address to listen on; empty means every IPv4 and IPv6 address"),
    Flag("port", "8000", _integer(0, 65535), "PORT", "port of the API, /metrics and the health paths; 0 picks one"),
    Flag("model", "", str, "NAME", "served model name, answered on /v1/models while no engine is ready"),
    Flag("static", None, Path, "FILE", 'JSON file with {"targets": [...]} instead of Kubernetes; re-read on change'),
    Flag("kubeconfig", None, Path, "FILE", "kubeconfig to use outside a cluster"),
    Flag(
        "on-prefill-failure",
        "Recompute",
        _one_of(PrefillFailure),
        "POLICY",
        "Recompute: decode computes alone when prefill cannot be had; Fail: the request fails",
    ),
    Flag("queue-timeout-seconds", "30", _number(0), "S", "how long a request waits for a ready pair before 503"),
    Flag("queue-size", "1024", _integer(0), "N", "how many requests may wait; one more gets 429"),
    Flag("retries", "2", _integer(-1), "N", "further attempts of a leg before the first byte; 0 or less: none"),
    Flag("max-sequences-per-target", "0", _integer(0), "N", "limit of sequences on one engine; 0: no limit"),
    Flag("connect-timeout-seconds", "2", _number(0.01), "S", "limit for a TCP connection to an engine"),
    Flag("request-timeout-seconds", "0", _number(0), "S", "limit for a whole request; 0: none"),
    Flag("body-timeout-seconds", "60", _number(0.01), "S", "limit for a client to send its request body"),
    Flag("max-body-bytes", "67108864", _integer(1), "BYTES", "largest request body; more gets 413"),
    Flag("health-interval-seconds", "1", _number(0), "S", "period of the /health checks of engines; 0: no checks"),
    Flag("health-timeout-seconds", "2", _number(0.01), "S", "an engine that does not answer /health in time is frozen"),
    Flag("shutdown-delay-seconds", "5", _number(0), "S", "after SIGTERM, how long new requests are still accepted"),
    Flag("drain-seconds", "600", _number(0), "S", "after that, how long requests in flight may take to finish"),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parser() -> argparse.ArgumentParser:
    """The command line, as `--help` shows it."""
    top = _Parser(
        prog="kvpool-router",
        description="OpenAI-compatible router in front of the engines of one InferenceGroup.",
        epilog="Each flag is also read from the environment: --queue-size from KVPOOL_ROUTER_QUEUE_SIZE; the flag "
        "wins. Paths: /v1/completions, /v1/chat/completions, /v1/models, /healthz, /readyz, /targets, /metrics.",
    )
    for flag in FLAGS:
        shown = "none" if flag.default in (None, "") else flag.default
        top.add_argument(f"--{flag.name}", metavar=flag.metavar, help=f"{flag.help} (default: {shown})")
    return top


def load(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """The configuration from command line and environment, or ConfigError."""
    given = vars(parser().parse_args(argv))
    values: dict[str, Any] = {}
    for flag in FLAGS:
        field = flag.name.replace("-", "_")
        text, source = given[field], f"--{flag.name}"
        if text is None and flag.variable in environ:
            text, source = environ[flag.variable], flag.variable
        if text is None:
            text = flag.default
        try:
            values[field] = None if text is None else flag.parse(text)
        except argparse.ArgumentTypeError as error:
            raise ConfigError(f"{source}: {error}") from None
    config = Config(**values)
    _check(config)
    return config


def _check(config: Config) -> None:
    """Rules between flags."""
    if config.static is None:
        for name, value in (("namespace", config.namespace), ("group", config.group)):
            if not value:
                raise ConfigError(f"--{name}: required unless --static names a file with targets")
    elif config.kubeconfig is not None:
        raise ConfigError("--kubeconfig: has no use together with --static")
