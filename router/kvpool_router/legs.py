"""The two legs of a request up to its first byte, and what happens when one of them fails.

Promises: a pair is only ever of one pairing revision; a failed leg is repeated elsewhere while that is allowed; a
request whose prefill cannot be had is computed by decode alone where the policy says so; every seat is given back.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus

from kvpool_router import rewrite
from kvpool_router.access_log import Record
from kvpool_router.config import Config, PrefillFailure, Transfer
from kvpool_router.errors import RouterError
from kvpool_router.metrics import Metrics
from kvpool_router.pool import Fault, Lease, PairLease, TargetPool, Weight
from kvpool_router.queueing import QueueFull, QueueTimeout
from kvpool_router.recompute import given_back
from kvpool_router.upstream import Answer, LegError, send
from kvpool_router.wire import EngineClient

_BACKOFF_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)
_RETRY_AFTER_SECONDS = 5
_LONG_PROMPT_BYTES = 16384  # a prompt of this size holds as much KV as counts for a second sequence
TAIL_BYTES = 2048  # where an answer's usage stands


@dataclass(slots=True)
class Exchange:
    """One request on its way through the router."""

    path: str
    record: Record
    body: rewrite.Body
    headers: bytes
    tried: set[str] = field(default_factory=set)
    attempts: Counter[str] = field(default_factory=Counter)  # failures that used up a retry, by leg
    prefilled: str | None = None  # the pairing revision whose pool already holds this prompt
    pair: PairLease | None = None  # the seats it holds now

    def release(self) -> None:
        """Give back whatever is held."""
        if self.pair is not None:
            self.pair.release()
            self.pair = None


class _StartOver(Exception):
    """The pairing revision has no seat for a repeated leg: the request needs a new pair."""


class Legs:
    """Runs the legs of requests."""

    def __init__(self, config: Config, pool: TargetPool, client: EngineClient, metrics: Metrics) -> None:
        self._config = config
        self._pool = pool
        self._client = client
        self._metrics = metrics

    async def open(self, x: Exchange) -> Answer:
        """An answer that has begun; `x` then holds the seats it runs on. Raises RouterError when there is none."""
        while True:
            x.release()
            x.pair = await self._place(x)
            try:
                handed = await self._prefill(x, x.pair)
                return handed if isinstance(handed, Answer) else await self._decode(x, x.pair, handed)
            except _StartOver:
                continue

    async def _place(self, x: Exchange) -> PairLease:
        """Wait for a pair."""
        size, sequences = len(x.body.raw), rewrite.sequences(x.body)
        weight = Weight(float(size), sequences * (1 + size / _LONG_PROMPT_BYTES), sequences)
        start = time.monotonic()
        try:
            waited = x.record.seconds.get("queue", 0.0)
            pair = await self._pool.pair(weight, x.tried, waited=waited, retry=bool(x.tried))
        except QueueFull as error:
            raise RouterError(
                HTTPStatus.TOO_MANY_REQUESTS, "queue_full", "Too many requests are waiting for an engine.",
                retry_after=_RETRY_AFTER_SECONDS,
            ) from error  # fmt: skip
        except QueueTimeout as error:
            raise RouterError(
                HTTPStatus.SERVICE_UNAVAILABLE, "no_targets", "No engine of this group is ready.",
                retry_after=_RETRY_AFTER_SECONDS,
            ) from error  # fmt: skip
        finally:
            self._phase(x, "queue", time.monotonic() - start)
        x.record.decode = pair.decode.target.endpoint.authority
        x.record.pairing = pair.decode.target.pairing or None
        return pair

    # The prefill leg.

    async def _prefill(self, x: Exchange, pair: PairLease) -> bytes | Answer:
        """Run prefill; return the decode leg's body, or the answer that refuses the request."""
        if pair.prefill is None:
            if pair.orphaned:
                self._alone(x, "unavailable")
            return self._alone_body(x)
        if x.prefilled == pair.decode.target.pairing and self._config.transfer is Transfer.POOL:
            return x.body.raw
        start = time.monotonic()
        try:
            answer = await self._prefill_leg(x, pair)
        finally:
            pair.prefill.release()
            self._phase(x, "prefill", time.monotonic() - start)
        if answer is None:
            return self._alone_body(x)
        if answer.status != 200:
            return answer
        x.prefilled = pair.decode.target.pairing
        self._metrics.usage("prefill", answer.first[-TAIL_BYTES:])
        if self._config.transfer is Transfer.POOL:
            return x.body.raw
        body = rewrite.decode_body(x.body, answer.first)
        if body is None:
            self._alone(x, "no_transfer_params")
            return self._alone_body(x)
        return body

    async def _prefill_leg(self, x: Exchange, pair: PairLease) -> Answer | None:
        """Prefill on one target or, after a failure, on others of the revision. None: decode has to compute alone."""
        body = rewrite.prefill_body(x.body, transfer=self._config.transfer is Transfer.P2P)
        while pair.prefill is not None:
            x.record.prefill = pair.prefill.target.endpoint.authority
            try:
                answer = await send(self._client, pair.prefill, x.path, x.headers, body, whole=True)
            except LegError as error:
                following = await self._after_failure(x, "prefill", pair.prefill, error)
                if following is None and self._config.on_prefill_failure is PrefillFailure.RECOMPUTE:
                    self._alone(x, error.fault.value)
                    return None
                if following is None:
                    return self._start_over(x, "prefill", error)
                pair.prefill = following
            else:
                self._pool.succeeded(pair.prefill.target)
                return answer
        return None

    # The decode leg.

    async def _decode(self, x: Exchange, pair: PairLease, body: bytes) -> Answer:
        """Decode on one target or others of the revision, until its first byte."""
        while True:
            lease = pair.decode
            x.record.decode = lease.target.endpoint.authority
            try:
                answer = await send(self._client, lease, x.path, x.headers, body)
                if self._config.transfer is not Transfer.MIXED and given_back(answer.first):
                    answer.close()
                    raise LegError(Fault.RECOMPUTED, "the engine gave the request back")
            except LegError as error:
                following = await self._after_failure(x, "decode", lease, error)
                if following is None:
                    return self._start_over(x, "decode", error)
                pair.decode = following
                # With P2P the blocks may be gone once a decoder has seen the request: then prefill again.
                if self._config.transfer is Transfer.P2P and error.fault is not Fault.CONNECT:
                    raise _StartOver from error
            else:
                self._pool.succeeded(lease.target)
                lease.begun = True
                return answer

    # What both legs share.

    def _may_retry(self, x: Exchange, leg: str, error: LegError) -> bool:
        """Refused connections cost no attempt: nobody has seen the request, and the queue's limit bounds them."""
        if self._config.retries <= 0:
            return False
        return error.fault is Fault.CONNECT or x.attempts[leg] <= self._config.retries

    async def _after_failure(self, x: Exchange, leg: str, lease: Lease, error: LegError) -> Lease | None:
        """Set the target aside, give its seat back, wait a little, and take another seat of the revision."""
        self._pool.failed(lease.target, error.fault)
        lease.release()
        x.tried.add(lease.target.key)
        x.record.detail = f"{leg} {lease.target.endpoint.authority}: {error.detail}"
        if error.fault is not Fault.CONNECT:
            x.attempts[leg] += 1
        if not self._may_retry(x, leg, error):
            return None
        if error.fault is not Fault.CONNECT:
            delay = _BACKOFF_SECONDS[min(x.attempts[leg], len(_BACKOFF_SECONDS)) - 1]
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
        following = self._pool.sibling(lease, x.tried)
        if following is not None:
            self._count_retry(x, leg, error)
        return following

    def _start_over(self, x: Exchange, leg: str, error: LegError) -> Answer:
        """Ask for a new pair where a retry is allowed; else the engine's own error answer, or the router's."""
        if self._may_retry(x, leg, error):
            self._count_retry(x, leg, error)
            raise _StartOver from error
        if error.answer is not None:
            return error.answer
        message = f"The engine failed before it began to answer: {error.detail}."
        raise RouterError(HTTPStatus.BAD_GATEWAY, f"engine_{error.fault.value}", message) from error

    def _count_retry(self, x: Exchange, leg: str, error: LegError) -> None:
        x.record.retries += 1
        self._metrics.retries.labels(leg, error.fault.value).inc()

    def _alone_body(self, x: Exchange) -> bytes:
        """With P2P a client must not be able to send a decoder to fetch blocks from anywhere."""
        return rewrite.without_remote(x.body) if self._config.transfer is Transfer.P2P else x.body.raw

    def _alone(self, x: Exchange, reason: str) -> None:
        x.record.computed_alone = reason
        self._metrics.alone.labels(reason).inc()

    def _phase(self, x: Exchange, phase: str, seconds: float) -> None:
        x.record.seconds[phase] = x.record.seconds.get(phase, 0.0) + seconds
