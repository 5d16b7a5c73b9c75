from __future__ import annotations

from pathlib import Path

import pytest

from kvpool_router.config import FLAGS, ConfigError, PrefillFailure, Transfer, load, parser

GROUP = ["--namespace", "ml", "--group", "qwen"]


def test_the_defaults_are_those_the_help_shows() -> None:
    config = load(GROUP, {})
    assert (config.port, config.transfer, config.queue_timeout_seconds) == (8000, Transfer.POOL, 30.0)
    assert config.on_prefill_failure is PrefillFailure.RECOMPUTE
    help_text = " ".join(parser().format_help().split())
    for flag in FLAGS:
        assert f"--{flag.name} {flag.metavar}" in help_text
        assert f"(default: {flag.default or 'none'})" in help_text


def test_a_flag_wins_over_its_variable_and_the_variable_over_the_default() -> None:
    environ = {"KVPOOL_ROUTER_PORT": "9000", "KVPOOL_ROUTER_QUEUE_SIZE": "5"}
    config = load([*GROUP, "--port", "9001"], environ)
    assert (config.port, config.queue_size) == (9001, 5)


@pytest.mark.parametrize(
    "argv, environ, part",
    [
        ([], {}, "--namespace: required"),
        (["--namespace", "n"], {}, "--group: required"),
        ([*GROUP, "--transfer", "pool"], {}, "--transfer: expected one of Pool, P2P, Mixed, got 'pool'"),
        ([*GROUP, "--port", "70000"], {}, "--port: expected an integer between 0 and 65535"),
        ([*GROUP, "--port", ""], {}, "--port"),
        ([*GROUP, "--queue-timeout-seconds", "-1"], {}, "--queue-timeout-seconds: expected a number >= 0"),
        ([*GROUP, "--drain-seconds", "nan"], {}, "--drain-seconds"),
        ([*GROUP, "--drain-seconds", "inf"], {}, "--drain-seconds"),
        ([*GROUP, "--max-body-bytes", "1.5"], {}, "--max-body-bytes"),
        ([*GROUP, "--unknown", "1"], {}, "--unknown"),
        (GROUP, {"KVPOOL_ROUTER_PORT": "x"}, "KVPOOL_ROUTER_PORT: expected an integer"),
        (["--static", "f", "--kubeconfig", "k"], {}, "--kubeconfig: has no use"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_source(argv: list[str], environ: dict[str, str], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(argv, environ)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_static_targets_need_no_group() -> None:
    assert load(["--static", "/t.json"], {}).static == Path("/t.json")
