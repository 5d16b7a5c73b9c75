"""The launcher, with an environment and a file system of the test's making."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvpool_connector.launch import environment, failure, main, preflight
from kvpool_connector.launch.command import engine_command, flag_values
from kvpool_connector.launch.contract_reader import read_contract
from kvpool_connector.launch.failure import LaunchError
from kvpool_connector.launch.store_wait import endpoints, wait_for_store
from tests.unit.connector.builders import CONTRACT

REPOSITORY = Path(__file__).resolve().parents[3]
CONTRACT_TCP = {**CONTRACT, "KVPOOL_PROTOCOL": "tcp", "VLLM_HOST_IP": "10.0.0.7"}


@pytest.fixture
def model(tmp_path: Path) -> str:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    return str(folder)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**CONTRACT_TCP, "MOONCAKE_CONFIG_PATH": str(tmp_path / "run" / "mooncake.json"), "PATH": "/usr/bin:/bin"}


@pytest.fixture(autouse=True)
def termination_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr(main, "report", lambda message: failure.report(message, log))
    return log


def test_every_missing_and_wrong_variable_is_named_at_once() -> None:
    broken = {name: value for name, value in CONTRACT.items() if name not in ("MOONCAKE_MASTER", "KVPOOL_ROLE")}
    with pytest.raises(LaunchError) as caught:
        read_contract({**broken, "KVPOOL_PROTOCOL": "rdma"})
    message = str(caught.value)
    assert all(part in message for part in ("MOONCAKE_MASTER is not set", "KVPOOL_ROLE is not set", "'rdma'"))
    assert "\n" not in message


def test_point_to_point_without_a_layout_is_refused() -> None:
    with pytest.raises(LaunchError, match="KVPOOL_P2P"):
        read_contract({**CONTRACT, "KVPOOL_ROLE": "Prefill", "KVPOOL_TRANSFER": "P2P"})


@pytest.mark.parametrize(
    ("args", "values"),
    [
        (["--block-size", "32"], ["32"]),
        (["--block-size=32"], ["32"]),
        (["--block_size", "32", "--block-size=64"], ["32", "64"]),
        (["--block-sizes", "32"], []),
        ([], []),
    ],
)
def test_flags_are_found_in_every_spelling(args: list[str], values: list[str]) -> None:
    assert flag_values(args, "--block-size") == values


def test_the_command_carries_the_pools_identity_and_one_transfer_configuration() -> None:
    command = engine_command(read_contract(CONTRACT), ["--model", "m"])
    assert command[:5] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "m"]
    assert flag_values(command, "--block-size") == ["128"]
    assert flag_values(command, "--prefix-caching-hash-algo") == ["sha256_cbor"]
    (config,) = flag_values(command, "--kv-transfer-config")
    assert json.loads(config)["kv_connector"] == "KVPoolConnector"


def test_an_argument_that_agrees_with_the_pool_stays_single() -> None:
    command = engine_command(read_contract(CONTRACT), ["--block-size=128"])
    assert flag_values(command, "--block-size") == ["128"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--block-size", "64"], "--block-size 64 contradicts the pool"),
        (["--kv_cache_dtype=fp8"], "--kv-cache-dtype fp8 contradicts"),
        (["--kv-transfer-config", "{}"], "written by kvpool"),
    ],
)
def test_an_argument_against_the_pool_stops_the_start(args: list[str], text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        engine_command(read_contract(CONTRACT), args)


def test_the_carrier_comes_first_on_pythonpath_and_the_images_own_stays() -> None:
    result = environment.engine_environment(read_contract(CONTRACT_TCP), {**CONTRACT_TCP, "PYTHONPATH": "/opt/vllm"})
    assert result["PYTHONPATH"] == f"{environment.carrier_folder()}:/opt/vllm"
    assert result["PYTHONHASHSEED"] == "0"
    assert "VLLM_PLUGINS" not in result


@pytest.mark.parametrize(("given", "expected"), [("ascend", "ascend,kvpool"), ("kvpool, ascend", "kvpool,ascend")])
def test_a_list_of_plugins_gets_ours(given: str, expected: str) -> None:
    result = environment.engine_environment(read_contract(CONTRACT_TCP), {**CONTRACT_TCP, "VLLM_PLUGINS": given})
    assert result["VLLM_PLUGINS"] == expected


def test_ascends_scripts_are_sourced_and_search_paths_are_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "set_env.sh"
    script.write_text(
        "export LD_LIBRARY_PATH=/cann:$LD_LIBRARY_PATH\nexport TWO='a\nb'\necho noise\n", encoding="utf-8"
    )
    (tmp_path / "site" / "mooncake").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(
        environment, "_sourced", lambda env, real=environment._sourced: real(env, (script, tmp_path / "absent"))
    )
    before = {**CONTRACT, "LD_LIBRARY_PATH": "/driver", "PATH": "/usr/bin:/bin"}
    result = environment.engine_environment(read_contract(before), before)
    assert result["LD_LIBRARY_PATH"] == f"{tmp_path}/site/mooncake:/cann:/driver"
    assert result["TWO"] == "a\nb"


def test_a_script_that_fails_stops_the_start(tmp_path: Path) -> None:
    script = tmp_path / "set_env.sh"
    script.write_text("echo no CANN here >&2; return 3\n", encoding="utf-8")
    with pytest.raises(LaunchError, match="no CANN here"):
        environment._sourced({"PATH": "/usr/bin:/bin"}, (script,))


def situation(environ: dict[str, str], model: str, root: Path = Path("/"), *args: str) -> preflight.Situation:
    return preflight.Situation(read_contract(environ), ["--model", model, *args], environ, root)


def node(root: Path, limit: str) -> Path:
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory.max").write_text(limit, encoding="ascii")
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 4194304 kB\n", encoding="ascii")
    return root


@pytest.mark.parametrize(
    ("limit", "args", "fits"),
    [
        (str(8 << 30), (), True),
        (str(2 << 30), (), False),
        ("max", (), True),
        (str(8 << 30), ("--tensor-parallel-size", "4"), False),
        ("max", ("--tensor-parallel-size=2",), False),
    ],
)
def test_the_segments_of_all_ranks_must_fit_the_memory_limit(
    environ: dict[str, str], model: str, tmp_path: Path, limit: str, args: tuple[str, ...], fits: bool
) -> None:
    look = situation(environ, model, node(tmp_path / "root", limit), *args)
    if fits:
        assert "limit" in preflight.memory(look)
    else:
        with pytest.raises(LaunchError, match="lower the segment size"):
            preflight.memory(look)


@pytest.mark.parametrize(
    ("address", "text"), [("", "status.podIP"), ("127.0.0.1", "cannot be reached"), ("engine-0", "no IP address")]
)
def test_an_address_that_others_cannot_reach_is_refused(
    environ: dict[str, str], model: str, address: str, text: str
) -> None:
    with pytest.raises(LaunchError, match=text):
        preflight.host_ip(situation({**environ, "VLLM_HOST_IP": address}, model))


@pytest.mark.parametrize(("path", "text"), [("/absent/model", "mounted"), ("{model}/", "no slash"), ("", "missing")])
def test_a_model_that_is_not_there_is_refused(environ: dict[str, str], model: str, path: str, text: str) -> None:
    with pytest.raises(LaunchError, match=text):
        preflight.model_path(situation(environ, path.format(model=model)))


def test_a_store_client_that_dies_by_a_signal_is_reported_by_its_name(
    environ: dict[str, str], model: str, tmp_path: Path
) -> None:
    (tmp_path / "fake" / "mooncake").mkdir(parents=True)
    (tmp_path / "fake" / "mooncake" / "__init__.py").touch()
    (tmp_path / "fake" / "mooncake" / "store.py").write_text("import os; os.abort()\n", encoding="utf-8")
    with pytest.raises(LaunchError, match="SIGABRT"):
        preflight.store_client(situation({**environ, "PYTHONPATH": str(tmp_path / "fake")}, model))


def test_on_ascend_the_network_file_is_asked_for_and_on_cpu_it_is_not(
    environ: dict[str, str], model: str, tmp_path: Path
) -> None:
    root = node(tmp_path / "root", "max")
    on_cpu = {result.name for result in preflight.run_checks(situation(environ, model, root))}
    on_npu = preflight.run_checks(situation({**environ, "KVPOOL_PROTOCOL": "ascend"}, model, root))
    assert "hccn" not in on_cpu
    assert [result.text for result in on_npu if result.name == "hccn"] == [
        "/etc/hccn.conf is missing: mount it from the node"
    ]


def test_all_failed_checks_end_up_in_one_termination_message(
    environ: dict[str, str], termination_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ["VLLM_HOST_IP"] = "127.0.0.1"
    assert main.main(["--", "--model", "/absent/model"], environ) == 1
    message = termination_log.read_text(encoding="utf-8")
    assert message.startswith("preflight: ")
    assert "host-ip" in message
    assert "model-path" in message
    assert "\n" not in message
    assert "FAIL  host-ip" in capsys.readouterr().out


def test_a_dry_run_shows_the_file_the_environment_and_the_command(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--dry-run", "--", "--model", "m"], environ) == 0
    shown = capsys.readouterr().out
    assert environ["MOONCAKE_CONFIG_PATH"] in shown
    assert '"master_server_address": "pool-master.ml.svc:50088"' in shown
    assert "PYTHONPATH=" in shown
    assert "--kv-transfer-config" in shown
    assert not Path(environ["MOONCAKE_CONFIG_PATH"]).exists()


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("m.ml.svc:50088", [("m.ml.svc", 50088)]),
        ("[fd00::1]:1", [("fd00::1", 1)]),
        ("etcd://a:1;b:2", [("a", 1), ("b", 2)]),
    ],
)
def test_masters_addresses_in_every_form(master: str, expected: list[tuple[str, int]]) -> None:
    assert endpoints(master) == expected


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_store_that_listens_is_not_waited_for(listening: str) -> None:
    assert wait_for_store(listening, 5, lambda text: None) < 5


def test_a_name_that_does_not_resolve_is_waited_for_until_the_limit_with_progress() -> None:
    now = [0.0]
    said: list[str] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(LaunchError, match="did not answer within 20 s"):
        wait_for_store("no-such-name.invalid:1", 20, said.append, lambda: now[0], sleep)
    assert len(said) == 3
    assert "waiting for the store at no-such-name.invalid:1: 5 of 20 s" in said[0]


@pytest.mark.parametrize("start", [("connector/kvpool_launch.py",), ("-m", "kvpool_connector.launch")])
def test_it_starts_as_a_script_and_as_a_module(environ: dict[str, str], start: tuple[str, ...]) -> None:
    if start[0] == "-m":
        environ["PYTHONPATH"] = str(REPOSITORY / "connector")
    done = subprocess.run(
        [sys.executable, *start, "--dry-run", "--", "--model", "m"],
        env=environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"PYTHONPATH={REPOSITORY / 'connector'}" in done.stdout or start[0] == "-m"
    assert "# command" in done.stdout
