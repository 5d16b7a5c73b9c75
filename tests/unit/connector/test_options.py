"""kv_connector_extra_config: what is taken, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from kvpool_connector.options import parse_options


def test_ascend_stores_keys_are_taken_as_they_are() -> None:
    options, warnings = parse_options(
        {"backend": "mooncake", "lookup_rpc_port": "0", "load_async": True, "consumer_is_to_put": True}
    )
    assert (options.load_async, options.consumer_is_to_put, options.consumer_is_to_load) == (True, True, False)
    assert warnings == []


def test_an_unknown_key_is_named_in_a_warning() -> None:
    _, warnings = parse_options({"laod_async": True})
    assert warnings == ["kv_connector_extra_config.laod_async is unknown and has no effect"]


@pytest.mark.parametrize(
    ("extra", "parts"),
    [
        ({"backend": "redis"}, ("backend", "'redis'", "mooncake")),
        ({"load_async": "false"}, ("load_async", "'false'", "boolean")),
        ({"lookup_timeout_ms": 0}, ("lookup_timeout_ms", "0", "greater than 0")),
        ({"use_layerwise": True}, ("use_layerwise", "AscendStoreConnector")),
        ({"prefill_pp_size": 2}, ("prefill_pp_size", "AscendStoreConnector")),
    ],
)
def test_a_wrong_value_is_refused_in_one_line_with_key_value_and_rule(
    extra: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError) as caught:
        parse_options(extra)
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts)


def test_the_lookup_port_may_be_a_number() -> None:
    assert parse_options({"lookup_rpc_port": 7})[0].lookup_rpc_port == "7"
