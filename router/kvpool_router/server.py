"""The HTTP surface: which path is answered by whom, and the envelope every answer has.

Every request gets an id, one access-log line and one count; every path that is not known gets a JSON 404.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web

from kvpool_router.access_log import AccessLog, Record
from kvpool_router.config import Config
from kvpool_router.errors import RouterError, error_response
from kvpool_router.metrics import Metrics
from kvpool_router.pool import Target, TargetPool
from kvpool_router.proxy import Proxy
from kvpool_router.upstream import get, request_headers
from kvpool_router.wire import EngineClient

_log = logging.getLogger(__name__)
_MODELS_SECONDS = 5.0
_CLIENT_GONE = 499  # nginx's code for a client that left; nobody receives it

Handler = Callable[[web.BaseRequest, Record, float], Awaitable[web.StreamResponse]]


class Surface:
    """The request handler of the server."""

    def __init__(
        self,
        config: Config,
        pool: TargetPool,
        client: EngineClient,
        metrics: Metrics,
        access_log: AccessLog,
    ) -> None:
        self._config = config
        self._pool = pool
        self._client = client
        self._metrics = metrics
        self._access_log = access_log
        self.draining = False
        self.busy: set[object] = set()  # connections with a request in flight
        self.idle = asyncio.Event()
        self.idle.set()
        proxy = Proxy(config, pool, client, metrics)
        self._api: dict[str, tuple[str, Handler]] = {
            "/v1/completions": ("POST", proxy.serve),
            "/v1/chat/completions": ("POST", proxy.serve),
            "/v1/models": ("GET", self._models),
        }
        self._own: dict[str, Callable[[], web.Response]] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/targets": self._targets,
            "/metrics": self._metrics_text,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request of any kind."""
        own = self._own.get(request.path)
        if own is None:
            response = await self._recorded(request)
        else:
            response = own() if request.method in ("GET", "HEAD") else _wrong_method("GET", {})
        if self.draining:
            response.force_close()
        return response

    async def _recorded(self, request: web.BaseRequest) -> web.StreamResponse:
        started = time.monotonic()
        request_id = request.headers.get("X-Request-Id") or uuid.uuid4().hex
        record = Record(request_id, request.method, request.path)
        connection = request.protocol
        self.busy.add(connection)
        self._note_load()
        try:
            response = await self._answer(request, record, started)
            record.status = record.status or response.status
            return response
        except (asyncio.CancelledError, ConnectionError):
            record.status, record.outcome = _CLIENT_GONE, "client_gone"
            raise
        finally:
            self.busy.discard(connection)
            self._note_load()
            self._finish(record, started)

    def _note_load(self) -> None:
        self._metrics.in_flight.set(len(self.busy))
        if self.busy:
            self.idle.clear()
        else:
            self.idle.set()

    async def _answer(self, request: web.BaseRequest, record: Record, started: float) -> web.StreamResponse:
        headers = {"X-Request-Id": record.request_id}
        method, handler = self._api.get(request.path, ("", None))
        if handler is None:
            record.outcome = "unknown_path"
            message = f"{request.path} is not served here."
            return error_response(RouterError(HTTPStatus.NOT_FOUND, "unknown_path", message), headers)
        if request.method != method:
            record.outcome = "wrong_method"
            return _wrong_method(method, headers)
        try:
            return await handler(request, record, started)
        except RouterError as error:
            record.outcome = error.reason
            return error_response(error, headers)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            _log.exception("request %s failed in the router", record.request_id)
            record.outcome = "internal_error"
            internal = RouterError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "Internal error of the router.")
            return error_response(internal, headers)

    def _finish(self, record: Record, started: float) -> None:
        record.seconds["total"] = time.monotonic() - started
        path = record.path if record.path in self._api else "other"
        self._metrics.finished(path, record.status, record.outcome, record.seconds)
        self._access_log.write(record)

    async def _models(self, request: web.BaseRequest, record: Record, started: float) -> web.StreamResponse:
        """The list of models from an engine, else from the configuration."""
        headers = request_headers(request.headers.items(), record.request_id)
        for target in self._pool.any_ready()[:3]:
            answer = await get(self._client, target, "/v1/models", headers, _MODELS_SECONDS)
            if answer is not None and answer.status < 500:
                record.decode, record.outcome = target.endpoint.authority, "ok"
                record.bytes_out = len(answer.first)
                return web.Response(status=answer.status, headers=answer.headers, body=answer.first)
        if self._config.model:
            record.outcome = "ok"
            model = {"id": self._config.model, "object": "model", "owned_by": "vllm", "root": self._config.model}
            return web.json_response({"object": "list", "data": [model]})
        message = "No engine of this group is ready."
        raise RouterError(HTTPStatus.SERVICE_UNAVAILABLE, "no_targets", message, retry_after=5)

    def _healthz(self) -> web.Response:
        return web.Response(text="ok\n")

    def _readyz(self) -> web.Response:
        if self.draining:
            return web.Response(status=503, text="shutting down\n")
        if not self._pool.ready():
            return web.Response(status=503, text="no usable pair of targets\n")
        return web.Response(text="ok\n")

    def _metrics_text(self) -> web.Response:
        return web.Response(
            body=self._metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    def _targets(self) -> web.Response:
        document = {
            "group": self._config.group,
            "transfer": self._config.transfer,
            "synced": self._pool.synced,
            "ready": self._pool.ready() and not self.draining,
            "queued": len(self._pool.room),
            "targets": [_describe(target) for target in self._pool.targets],
        }
        return web.Response(text=json.dumps(document, indent=1) + "\n", content_type="application/json")


def _describe(target: Target) -> dict[str, Any]:
    endpoint = target.endpoint
    return {
        "pod": endpoint.pod,
        "roleType": endpoint.role_type,
        "role": endpoint.role,
        "pairing": endpoint.pairing,
        "slot": endpoint.slot,
        "rank": endpoint.rank,
        "url": endpoint.url,
        "phase": endpoint.phase,
        "state": target.standing.name.capitalize(),
        "legs": len(target.leases),
        "work": target.work,
    }


def _wrong_method(allowed: str, headers: dict[str, str]) -> web.Response:
    error = RouterError(HTTPStatus.METHOD_NOT_ALLOWED, "wrong_method", f"Only {allowed} is allowed here.")
    return error_response(error, {**headers, "Allow": allowed})
