"""The real kubectl and helm, as tests call them: a failure carries what the program said."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.objects import Object


class CommandFailed(AssertionError):
    """A command ended with another exit code than 0; `output` is both streams."""

    def __init__(self, command: list[str], code: int, output: str) -> None:
        super().__init__(f"{' '.join(command)}: exit code {code}\n{output}")
        self.output = output


@dataclass(frozen=True, slots=True)
class Program:
    """One program that talks to one cluster."""

    path: Path
    kubeconfig: Path

    def run(self, *arguments: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Standard output; raises CommandFailed unless the exit code is 0."""
        command = [str(self.path), *map(str, arguments)]
        done = subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            check=False,
        )
        if done.returncode:
            raise CommandFailed(command, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def refusal(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """What the program says when it must fail."""
        try:
            output = self.run(*arguments, stdin=stdin)
        except CommandFailed as failed:
            return failed.output
        raise AssertionError(f"{self.path.name} {' '.join(map(str, arguments))} was accepted:\n{output}")


class Kubectl(Program):
    """kubectl, with the few calls that tests repeat."""

    def apply(self, *objects: Object, namespace: str | None = None, dry_run: bool = False) -> str:
        """Server-side apply under strict validation."""
        return self.run(*self._apply(namespace, dry_run), stdin=_documents(objects))

    def apply_refusal(self, *objects: Object, namespace: str | None = None, dry_run: bool = True) -> str:
        """What the API server answers to objects that it must not take."""
        return self.refusal(*self._apply(namespace, dry_run), stdin=_documents(objects))

    def get_json(self, resource: str, name: str | None = None, namespace: str | None = None, **options: str) -> Any:
        """One object, or the list when no name is given; options are flags such as selector."""
        flags = [f"--{key}={value}" for key, value in options.items()]
        target = [resource] if name is None else [resource, name]
        return json.loads(self.run("get", *target, *_in(namespace), *flags, "-o", "json"))

    def wait_for(self, what: str, condition: Callable[[], bool], seconds: float = 30) -> None:
        """Return once the condition holds; after the deadline fail and say what was awaited."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"after {seconds:.0f} s still not: {what}")
            time.sleep(0.1)

    @staticmethod
    def _apply(namespace: str | None, dry_run: bool) -> list[str]:
        flags = ["--server-side", "--force-conflicts", "--validate=strict", "-f", "-"]
        return ["apply", *_in(namespace), *flags, *(["--dry-run=server"] if dry_run else [])]


def _in(namespace: str | None) -> list[str]:
    return [] if namespace is None else ["--namespace", namespace]


def _documents(objects: tuple[Object, ...]) -> str:
    """JSON is YAML, so documents are JSON apart."""
    return "\n---\n".join(json.dumps(item) for item in objects)
