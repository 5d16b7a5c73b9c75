"""Running other programs, and saying what goes on.

A program that fails takes its output with it into the error: nobody should have to run it again to see why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

_START = time.monotonic()


class DevclusterError(Exception):
    """Something that the user should read as one message, without a trace."""


def say(message: str) -> None:
    """Print one progress line, with the seconds since this command began, to stderr: stdout is for answers."""
    print(f"[{time.monotonic() - _START:6.1f}s] {message}", file=sys.stderr, flush=True)


def run(
    *command: str | os.PathLike[str],
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run a program and give what it printed (both streams); a failure raises with that output."""
    done = subprocess.run(
        [os.fspath(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        text=True,
        errors="replace",
        env=env,
        cwd=cwd,
        check=False,
    )
    if check and done.returncode:
        line = " ".join(os.fspath(part) for part in command)
        raise DevclusterError(f"{line}: exit code {done.returncode}\n{done.stdout.strip()}")
    return done.stdout


def answer(*command: str | os.PathLike[str], env: Mapping[str, str] | None = None) -> str:
    """Run a program and give its standard output alone, without the line's end."""
    done = subprocess.run(
        [os.fspath(part) for part in command],
        capture_output=True,
        text=True,
        env=env,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        line = " ".join(os.fspath(part) for part in command)
        raise DevclusterError(f"{line}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def heartbeat(what: str, every: float = 10.0) -> Iterator[list[str]]:
    """Say now and then that `what` is still going on; the block may put a detail into the list it gets."""
    began = time.monotonic()
    detail: list[str] = [""]
    done = threading.Event()

    def beat() -> None:
        while not done.wait(every):
            say(f"{what}: {time.monotonic() - began:.0f} s{detail[0]}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield detail
    finally:
        done.set()
        thread.join()


def follow(
    command: Sequence[str | os.PathLike[str]], what: str, *, env: Mapping[str, str], cwd: os.PathLike[str]
) -> None:
    """Run a long build that names each thing it works on in a line, and report the count and the last of them."""
    lines: list[str] = []
    with heartbeat(what) as detail:
        with subprocess.Popen(
            [os.fspath(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env=env,
            cwd=cwd,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip())
                detail[0] = f", {len(lines)} packages, now {lines[-1]}"
    if process.returncode:
        shown = "\n".join(lines[-30:])
        raise DevclusterError(f"{what} failed with exit code {process.returncode}:\n{shown}")
