from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from kvpool_connector.launch.drain import QUIET_SECONDS, drain


class Clock:
    """Time that only passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def engine(busy_polls: int) -> Iterator[int]:
    """An engine that runs one request for so many polls of its metrics."""
    left = busy_polls

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal left
            running = 1.0 if left > 0 else 0.0
            left -= 1
            page = f'vllm:num_requests_running{{engine="0"}} {running}\nvllm:num_requests_waiting{{engine="0"}} 0.0\n'
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _drain(port: int, seconds: float) -> tuple[list[str], float]:
    said: list[str] = []
    clock = Clock()
    drain(port, seconds, said.append, clock=clock, pause=clock.pause)
    return said, clock.now


def test_it_waits_for_running_requests_and_then_for_quiet() -> None:
    with engine(busy_polls=10) as port:
        said, waited = _drain(port, 600)
    assert said == ["drain: the engine is idle"]
    assert waited >= 10 * 0.5 + QUIET_SECONDS


def test_it_gives_up_at_its_limit() -> None:
    with engine(busy_polls=10_000) as port:
        said, waited = _drain(port, 20)
    assert said == ["drain: requests are left after 20 s"]
    assert waited <= 20.5


def test_an_engine_that_is_gone_needs_no_wait() -> None:
    with engine(busy_polls=0) as port:
        pass
    said, waited = _drain(port, 600)
    assert "does not answer" in said[0]
    assert waited == 0
