"""Every field changed and changed back, on the real API server: the children are as before, down to each field."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvpool_operator.api.crd import KINDS, root_schema
from tests.faults.conftest import user_api
from tests.support.faulty_api import FaultyAPI
from tests.support.leaves import GROUP_BASE, GROUP_LEAVES, NOT_HERE, POOL_BASE, POOL_LEAVES, Row
from tests.support.objects import Object, changed
from tests.support.trial import Trial, UserApi

pytestmark = pytest.mark.cluster

ROWS: tuple[tuple[Object, Row], ...] = (
    *((POOL_BASE, row) for row in POOL_LEAVES),
    *((GROUP_BASE, row) for row in GROUP_LEAVES),
)


def _fields(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Leaves of a spec: a list of objects with names is looked into, any other list or free object is one leaf."""
    if schema.get("properties"):
        for name, child in schema["properties"].items():
            yield from _fields(child, f"{path}.{name}")
    elif path.endswith("roles"):
        yield from _fields(schema["items"], f"{path}[]")
    else:
        yield path


def _covered(leaf: str, rows: tuple[Row, ...]) -> bool:
    """A row's path is the leaf or a block above it."""
    paths = [re.sub(r"\.\d+\.", "[].", path.replace("__", ".")) for path, _, _ in rows]
    return any(leaf == path or leaf.startswith(f"{path}.") for path in paths)


@pytest.mark.parametrize("kind, rows", [("KVPool", POOL_LEAVES), ("InferenceGroup", GROUP_LEAVES)])
def test_no_field_is_missing_from_the_table(kind: str, rows: tuple[Row, ...]) -> None:
    schema = next(root_schema(each) for each in KINDS if each.name == kind)
    leaves = set(_fields(schema["properties"]["spec"], "spec"))
    assert [leaf for leaf in sorted(leaves - NOT_HERE) if not _covered(leaf, rows)] == []


async def _children(trial: Trial) -> str:
    """The end state without the generations that status speaks of: they only ever grow."""
    return "\n".join(line for line in (await trial.end_state()).splitlines() if "observedGeneration" not in line)


async def _check(user: UserApi, base: Object, row: Row) -> str | None:
    path, value, must_differ = row
    async with Trial(user, FaultyAPI(user)) as trial:
        for obj in (POOL_BASE, GROUP_BASE):
            await trial.user.put(obj, trial.namespace)
        await trial.settle()
        before = await _children(trial)
        digests = await _digests(trial)
        await trial.user.put(changed(base, **{path: value}), trial.namespace)
        await trial.settle()
        meanwhile = await _digests(trial)
        if must_differ and meanwhile == digests:
            return f"{path} = {value!r} changes no child"
        await trial.user.put(base, trial.namespace)
        await trial.settle()
        after = await _children(trial)
        if await _digests(trial) != digests:
            return f"{path}: children differ after the way back"
        return None if after == before else f"{path}: another state after the way back"


async def _digests(trial: Trial) -> set[tuple[str, str, str]]:
    """Kind, name and desired hash of each child: unmasked, so that any change of a child shows."""
    return {
        (
            obj["kind"],
            obj["metadata"]["name"],
            (obj["metadata"].get("annotations") or {}).get("kvpool.dev/desired-hash", ""),
        )
        for obj in await trial.left()
    }


async def test_every_field_changed_and_changed_back_gives_the_same_children(
    quiet_cluster: Path, slots: asyncio.Semaphore
) -> None:
    async with user_api(quiet_cluster) as user:

        async def one(base: Object, row: Row) -> str | None:
            async with slots:
                return await _check(user, base, row)

        problems = [found for found in await asyncio.gather(*(one(*each) for each in ROWS)) if found]
    assert not problems, "\n".join(problems)
