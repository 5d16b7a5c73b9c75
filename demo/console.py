"""What the demo prints: numbered steps with their seconds, the commands it runs, and progress while it waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SHOWN_OUTPUT_LINES = 12


class DemoError(Exception):
    """A step failed; the text says what was awaited and what was found."""


@dataclass(slots=True)
class Console:
    """Prints the story and remembers how long each step took."""

    started: float = field(default_factory=time.monotonic)
    seconds: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One step of the story."""
        begin = time.monotonic()
        self.say(f"\n== {len(self.seconds) + 1}. {title}")
        yield
        self.seconds.append((title, time.monotonic() - begin))
        self.say(f"   done in {self.seconds[-1][1]:.1f} s")

    def say(self, text: str) -> None:
        """One line."""
        print(text, flush=True)

    def command(self, text: str) -> None:
        """A command as a user would type it."""
        self.say(f"   $ {text}")

    def output(self, text: str) -> None:
        """What a command printed, shortened."""
        lines = text.rstrip().splitlines()
        for line in lines[:_SHOWN_OUTPUT_LINES]:
            self.say(f"     {line}")
        if len(lines) > _SHOWN_OUTPUT_LINES:
            self.say(f"     ... {len(lines) - _SHOWN_OUTPUT_LINES} more lines")

    def summary(self) -> None:
        """Seconds of each step."""
        self.say(f"\nAll {len(self.seconds)} steps in {time.monotonic() - self.started:.0f} s:")
        for title, seconds in self.seconds:
            self.say(f"  {seconds:7.1f} s  {title}")


@dataclass(frozen=True, slots=True)
class Tools:
    """kubectl and helm on the demo's cluster."""

    console: Console
    path: str
    kubeconfig: Path

    def run(self, *command: str, show: bool = True, stdin: str | None = None) -> str:
        """Run a command, show it with its output, and fail with its words."""
        if show:
            self.console.command(" ".join(command))
        done = subprocess.run(
            command,
            input=stdin,
            env={**os.environ, "PATH": self.path, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DemoError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        if show:
            self.console.output(done.stdout)
        return done.stdout

    def get_json(self, *arguments: str) -> Any:
        """kubectl get, as an object."""
        return json.loads(self.run("kubectl", "get", *arguments, "-o", "json", show=False))

    def popen(self, *command: str) -> subprocess.Popen[str]:
        """Start a command that goes on; the caller ends it."""
        return subprocess.Popen(
            command,
            env={**os.environ, "PATH": self.path, "KUBECONFIG": str(self.kubeconfig)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def wait_for(console: Console, what: str, probe: Callable[[], str], seconds: float) -> None:
    """Wait until `probe` returns an empty text; until then its text is the progress line."""
    begin = time.monotonic()
    shown = ""
    while state := probe():
        elapsed = time.monotonic() - begin
        if elapsed > seconds:
            raise DemoError(f"after {seconds:.0f} s still waiting for {what}: {state}")
        if state != shown:
            console.say(f"   [{elapsed:5.1f} s] {state}")
            shown = state
        time.sleep(0.5)


def devcluster(*arguments: str, module: str = "devcluster") -> str:
    """Run the development cluster's command line; its progress goes to the terminal."""
    command: Sequence[str] = (sys.executable, "-m", module, *arguments)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise DemoError(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout.strip()
