"""The process table ends what it started and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from devcluster.processes import Process, ProcessTable, start_time
from devcluster.shell import DevclusterError

WAITER = (sys.executable, "-c", "import time; print('started', flush=True); time.sleep(600)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    processes = ProcessTable(tmp_path)
    yield processes
    processes.stop(*(process.name for process in processes.all()), wait=0.5)


def test_a_started_process_is_known_to_a_later_command_and_can_be_ended_by_it(
    table: ProcessTable, tmp_path: Path
) -> None:
    table.start("waiter", *WAITER)
    later = ProcessTable(tmp_path)
    assert later.alive("waiter")
    later.stop("waiter")
    assert not table.alive("waiter")
    assert later.all() == []


def test_a_process_that_ignores_the_polite_signal_is_killed(table: ProcessTable) -> None:
    table.start("deaf", *STUBBORN)
    table.wait_for("it ignores TERM", lambda: "deaf" in table.tail("deaf"), 10)
    table.stop("deaf", wait=0.3)
    assert not table.alive("deaf")


def test_a_reused_pid_is_not_signalled(table: ProcessTable, tmp_path: Path) -> None:
    with subprocess.Popen(WAITER, stdout=subprocess.DEVNULL) as stranger:
        began = start_time(stranger.pid)
        assert began is not None
        posing = Process("waiter", stranger.pid, began - 1)  # as if the kernel had given our pid to somebody else
        (tmp_path / "processes.json").write_text(json.dumps([asdict(posing)]), encoding="utf-8")
        table.stop("waiter")
        assert stranger.poll() is None
        stranger.kill()


def test_waiting_ends_early_with_the_log_of_a_process_that_died(table: ProcessTable) -> None:
    table.start("broken", sys.executable, "-c", "import sys; sys.exit('no such flag: --frob')")
    with pytest.raises(DevclusterError, match="no such flag: --frob"):
        table.wait_for("something that never comes", lambda: False, 30)


def test_waiting_in_vain_says_for_what(table: ProcessTable) -> None:
    with pytest.raises(DevclusterError, match="in vain for the moon"):
        table.wait_for("the moon", lambda: False, 0.1)
