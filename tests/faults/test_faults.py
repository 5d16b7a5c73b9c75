"""Every scenario with each of its writes cut, refused or lost: the end is the clean run's, and nothing is made twice.

A subset with a fixed seed runs with the other tiers; `KVPOOL_FAULTS=all` (make faults) runs everything.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.conftest import record, user_api
from tests.support.faulty_api import WRITES, Fault, Mode
from tests.support.scenarios import SCENARIOS
from tests.support.trial import Trial, UserApi, run_trial

pytestmark = pytest.mark.cluster

ALL = os.environ.get("KVPOOL_FAULTS") == "all"
SAMPLE = 5
CRASHES = (Mode.CRASH_BEFORE, Mode.CRASH_AFTER)
ANSWERS = (
    Mode.CONFLICT,
    Mode.TOO_MANY,
    Mode.SERVER_ERROR,
    Mode.UNAVAILABLE,
    Mode.TIMEOUT,
    Mode.LOST_ANSWER,
    Mode.DELAY,
)


def _faults(clean: Trial) -> list[Fault]:
    """A crash before and after each single write, and each (verb, kind) failing once in each way, reads too."""
    writes = len(clean.api.effects)
    crashes = [Fault(mode, number) for number in range(1, writes + 1) for mode in CRASHES]
    pairs = sorted({(verb, kind) for verb, kind, _ in clean.api.effects})
    pairs += [("list", kind) for kind in ("Deployment", "Service", "InferenceRole", "ControllerRevision")]
    pairs += [("get", kind) for kind in ("KVPool", "InferenceGroup")]
    answers = [Fault(mode, 1, frozenset({verb}), kind) for verb, kind in pairs for mode in ANSWERS]
    return crashes + answers


def _made(trial: Trial) -> Counter[tuple[str, str]]:
    """How often objects of each kind were created or deleted, by what took effect."""
    return Counter((verb, kind) for verb, kind, _ in trial.effects() if verb in ("create", "delete"))


async def _check(user: UserApi, name: str, fault: Fault, clean: Trial, clean_end: str) -> str | None:
    """What is wrong after the scenario with this fault; None when all is as in the clean run."""
    trial, end = await run_trial(user, SCENARIOS[name], fault)
    what = f"{name}, {fault.mode.value} on request {fault.number} of {sorted(fault.verbs)} {fault.kind or ''}"
    if not trial.api.struck:
        return f"{what}: the fault was never met"
    if end != clean_end:
        return f"{what}: another end state\n{_first_difference(clean_end, end)}"
    if _made(trial) != _made(clean):
        return f"{what}: {_made(trial)} made and deleted instead of {_made(clean)}"
    return None


def _first_difference(wanted: str, found: str) -> str:
    for one, other in zip(wanted.splitlines(), found.splitlines(), strict=False):
        if one != other:
            return f"wanted {one}\nfound  {other}"
    return f"{len(wanted)} against {len(found)} characters"


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_fault_at_any_write_changes_nothing_in_the_end(
    quiet_cluster: Path, slots: asyncio.Semaphore, name: str
) -> None:
    async with user_api(quiet_cluster) as user:
        clean, clean_end = await run_trial(user, SCENARIOS[name], None)
        faults = _faults(clean)
        chosen = faults if ALL else random.Random(name).sample(faults, min(SAMPLE, len(faults)))

        async def one(fault: Fault) -> str | None:
            async with slots:
                return await _check(user, name, fault, clean, clean_end)

        wrong = [problem for problem in await asyncio.gather(*(one(fault) for fault in chosen)) if problem]
    record(name, len(clean.api.effects), Counter(fault.mode.value for fault in chosen))
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong[:5])


@pytest.mark.parametrize("name", SCENARIOS)
async def test_two_operators_at_once_end_where_one_does(
    quiet_cluster: Path, slots: asyncio.Semaphore, name: str
) -> None:
    """The Lease forbids it; should it happen all the same, nothing is made twice and nothing flaps for ever."""
    async with user_api(quiet_cluster) as user:
        async with slots:
            clean, clean_end = await run_trial(user, SCENARIOS[name], None)
            both, end = await run_trial(user, SCENARIOS[name], None, leaders=2)
    assert end == clean_end, _first_difference(clean_end, end)
    assert _made(both)["create", "Deployment"] == _made(clean)["create", "Deployment"]


async def test_a_clean_run_is_the_same_twice(quiet_cluster: Path) -> None:
    """The oracle itself: without a fault two runs have one end state, or a difference would mean nothing."""
    async with user_api(quiet_cluster) as user:
        (_, first), (_, second) = await asyncio.gather(
            *(run_trial(user, SCENARIOS["mixed to split and back"], None) for _ in range(2))
        )
    assert first == second
    assert '"kind": "Deployment"' in first


def test_every_kind_of_write_is_among_the_faults() -> None:
    assert {"create", "apply", "merge", "json", "delete"} == WRITES
