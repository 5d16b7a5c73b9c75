"""Has a child drifted? It has when what we want is not contained in what is there.

Fields that others own (an autoscaler's, a mesh's sidecar, defaults of the API server) are in the observed object only
and do not count. Lists whose items have a key are compared by key, other lists as a whole; quantities by value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

# The keys by which Kubernetes itself tells list items apart; the first that all items carry is used.
_ITEM_KEYS: tuple[tuple[str, ...], ...] = (
    ("name",),
    ("mountPath",),
    ("containerPort", "protocol"),
    ("containerPort",),
    ("port",),
    ("uid",),
    ("type",),
)
_ATOMIC_FIELDS = frozenset((f".{name}",) for name in ("command", "args", "tolerations", "rules", "subjects"))
_QUANTITY = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
_FACTOR = {
    None: Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}
_QUANTITY_PARENTS = frozenset({".requests", ".limits", ".sizeLimit"})


def first_difference(desired: Any, observed: Any) -> str | None:
    """The path of the first place where the observed object does not hold what is desired; None when it holds all."""
    found = _difference(desired, observed, ())
    return None if found is None else "".join(found) or "."


_Path = tuple[str, ...]
"""Steps from the root: `.name` for a member, `[2]` for an item."""


def _difference(desired: Any, observed: Any, path: _Path) -> _Path | None:
    if isinstance(desired, Mapping):
        return _map_difference(desired, observed, path)
    if isinstance(desired, list | tuple):
        return _list_difference(list(desired), observed, path)
    if desired == observed or (not desired and observed is None):  # the API server drops zero values
        return None
    if _QUANTITY_PARENTS.intersection(path[-2:]) and _same_quantity(desired, observed):
        return None
    return path


def _map_difference(desired: Mapping[str, Any], observed: Any, path: _Path) -> _Path | None:
    if not desired and not observed:
        return None
    if not isinstance(observed, Mapping):
        return path
    for key, value in desired.items():
        if value is None or value == {} or value == []:
            continue
        if (found := _difference(value, observed.get(key), (*path, f".{key}"))) is not None:
            return found
    return None


def _list_difference(desired: list[Any], observed: Any, path: _Path) -> _Path | None:
    if not isinstance(observed, list):
        return None if not desired else path
    keys = None if path[-1:] in _ATOMIC_FIELDS else _item_keys(desired, observed)
    if keys is None:
        if len(desired) != len(observed):
            return path
        pairs = list(zip(desired, observed, strict=True))
    else:
        by_key = {tuple(item.get(key) for key in keys): item for item in observed}
        pairs = [(item, by_key.get(tuple(item.get(key) for key in keys))) for item in desired]
    for index, (want, have) in enumerate(pairs):
        if (found := _difference(want, have, (*path, f"[{index}]"))) is not None:
            return found
    return None


def _item_keys(desired: list[Any], observed: list[Any]) -> tuple[str, ...] | None:
    items = [*desired, *observed]
    if not items or not all(isinstance(item, Mapping) for item in items):
        return None
    return next((keys for keys in _ITEM_KEYS if all(key in item for item in desired for key in keys)), None)


def _same_quantity(left: Any, right: Any) -> bool:
    first, second = _QUANTITY.match(str(left)), _QUANTITY.match(str(right))
    if not first or not second:
        return False
    return Decimal(first[1]) * _FACTOR[first[2]] == Decimal(second[1]) * _FACTOR[second[2]]
