from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvpool_operator.plan.canonical import canonical, digest, without_empty

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "one, other",
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1, "b": None}, {"a": 1}),
        ({"a": 1, "b": {}}, {"a": 1}),
        ({"a": {"b": {"c": None}}}, {}),
    ],
)
def test_spellings_of_the_same_meaning_have_one_digest(one: Any, other: Any) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize("one, other", [({"a": 1}, {"a": "1"}), ({"a": [1, 2]}, {"a": [2, 1]}), ({"a": False}, {})])
def test_different_meanings_have_different_digests(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


@given(JSON)
def test_removing_what_is_empty_twice_is_removing_it_once(value: Any) -> None:
    assert without_empty(without_empty(value)) == without_empty(value)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_the_order_of_members_never_matters(value: dict[str, Any]) -> None:
    assert canonical(value) == canonical(dict(reversed(list(value.items()))))
