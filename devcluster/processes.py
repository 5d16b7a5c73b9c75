"""The processes of one run folder. Only what was started here is ever signalled: a pid counts with its start time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.paths import write
from devcluster.shell import DevclusterError, say

_POLL = 0.05


@dataclass(frozen=True)
class Process:
    """A started process; the kernel reuses pids, so the start time belongs to its name."""

    name: str
    pid: int
    start: int

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return start_time(self.pid) == self.start

    @property
    def memory(self) -> int:
        """Resident bytes; 0 if it is gone."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return 0
        return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS")), 0)


def start_time(pid: int) -> int | None:
    """When the kernel started this process, in ticks since boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class ProcessTable:
    """What runs in one run folder, remembered in a file so that any later command can end it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "processes.json"

    def all(self) -> list[Process]:
        """Every process started and not yet ended by us, alive or not."""
        try:
            return [Process(**entry) for entry in json.loads(self._file.read_text(encoding="utf-8"))]
        except FileNotFoundError:
            return []

    def _store(self, processes: Iterable[Process]) -> None:
        fresh = self._file.with_suffix(".new")
        write(fresh, json.dumps([asdict(process) for process in processes]))
        fresh.replace(self._file)

    def log(self, name: str) -> Path:
        """The file that this process writes its messages to."""
        return self._folder / f"{name}.log"

    def start(self, name: str, *command: str | Path, env: Mapping[str, str] | None = None) -> None:
        """Start a daemon in a session of its own, so that the terminal's interrupt does not reach it."""
        with self.log(name).open("ab") as output:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        started = start_time(child.pid)
        if started is None:
            raise DevclusterError(f"{name} ended at once\n{self.tail(name)}")
        # One process of a name: a restarted one replaces its predecessor in the table.
        others = [process for process in self.all() if process.name != name]
        self._store([*others, Process(name, child.pid, started)])

    def tail(self, name: str, lines: int = 15) -> str:
        """The last lines of a process's log."""
        try:
            return "\n".join(self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def alive(self, name: str) -> bool:
        """Whether the process of this name runs."""
        return any(process.name == name and process.alive for process in self.all())

    def stop(self, *names: str, wait: float = 8.0) -> None:
        """Ask the named processes to end, wait, and end those that did not."""
        chosen = [process for process in self.all() if process.name in names and process.alive]
        for process in chosen:
            _signal(process, signal.SIGTERM)
        if not _gone(chosen, wait):
            for process in chosen:
                if process.alive:
                    say(f"{process.name} did not end when asked, killing it")
                    _signal(process, signal.SIGKILL)
            _gone(chosen, 5.0)
        if chosen:
            self._store([process for process in self.all() if process.name not in names])

    def wait_for(self, what: str, ready: Callable[[], bool], limit: float = 60.0) -> None:
        """Wait until `ready`, and give up early with its log if one of the processes dies meanwhile."""
        end = time.monotonic() + limit
        while not ready():
            for process in self.all():
                if not process.alive:
                    raise DevclusterError(f"{process.name} died, while waiting for {what}:\n{self.tail(process.name)}")
            if time.monotonic() > end:
                raise DevclusterError(f"waited {limit:.0f} s in vain for {what}; logs are in {self._folder}")
            time.sleep(_POLL)
        say(what)


def _signal(process: Process, number: int) -> None:
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        pass


def _gone(processes: list[Process], wait: float) -> bool:
    end = time.monotonic() + wait
    while any(process.alive for process in processes):
        for process in processes:
            _reap(process.pid)
        if time.monotonic() > end:
            return False
        time.sleep(_POLL)
    return True


def _reap(pid: int) -> None:
    """Collect the exit code if it is a child of this very command; other commands' children are init's."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
