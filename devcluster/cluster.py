"""Up, down and status of a profile: the order of things, and nothing of their detail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from devcluster import control_plane, node, simulated, teardown
from devcluster.api import Api
from devcluster.debian import ensure_packages
from devcluster.paths import locked, run_root, write
from devcluster.processes import ProcessTable
from devcluster.profiles import PROFILES, Profile
from devcluster.shell import say
from devcluster.toolchain import Tools, ensure_tools, tools_paths


@dataclass(frozen=True)
class Options:
    """What a person may choose about a running cluster."""

    nodes: int = 4
    controllers: str = "*"
    mounts: tuple[str, ...] = ()

    def changed(self, nodes: int | None, controllers: str | None, mounts: tuple[str, ...] | None) -> Options:
        """These options, but for what is given."""
        return replace(
            self,
            nodes=self.nodes if nodes is None else nodes,
            controllers=self.controllers if controllers is None else controllers,
            mounts=self.mounts if mounts is None else mounts,
        )


class Cluster:
    """One profile on this machine."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.processes = ProcessTable(profile.folder)
        self._options_file = profile.folder / "options.json"

    @property
    def expected(self) -> tuple[str, ...]:
        """The processes of a cluster that is up."""
        return (*control_plane.NAMES, *(node.NAMES if self.profile.has_node else (simulated.NAME,)))

    @property
    def is_up(self) -> bool:
        """Whether every process runs; a start that was cut short has no options file yet."""
        return self._options_file.exists() and all(self.processes.alive(name) for name in self.expected)

    @property
    def options(self) -> Options:
        """What the running cluster was started with, or the defaults."""
        try:
            stored = json.loads(self._options_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Options()
        return Options(**{**stored, "mounts": tuple(stored["mounts"])})

    def up(
        self, nodes: int | None = None, controllers: str | None = None, mounts: tuple[str, ...] | None = None
    ) -> None:
        """Bring it up, or a running one to these options; what is not given stays as it is."""
        ensure_packages("node" if self.profile.has_node else "control-plane")
        tools = ensure_tools(helm=False)
        with self._locked():
            wanted = self.options.changed(nodes, controllers, mounts)
            if self.is_up:
                self._adapt(tools, wanted)
            else:
                teardown.down(self.profile, tools)
                self._start(tools, wanted)
            write(self._options_file, json.dumps(asdict(wanted)))

    def down(self) -> None:
        """End everything and remove every trace."""
        with self._locked():
            teardown.down(self.profile, tools_paths())

    def _start(self, tools: Tools, options: Options) -> None:
        profile, processes = self.profile, self.processes
        profile.folder.mkdir(parents=True, mode=0o700)
        if profile.has_node:
            teardown.remember_host(profile)
        control_plane.start_store_and_api(profile, tools, processes, node.NODE_NAME)
        if profile.has_node:
            node.start_runtime(profile, processes, options.mounts)
        api = control_plane.wait_until_alive(profile, processes)
        control_plane.start_controllers(profile, tools, processes, options.controllers)
        if profile.has_node:
            node.start_kubelet(profile, tools, processes)
        else:
            simulated.start_simulator(profile, tools, processes)
        control_plane.wait_until_usable(processes, api, options.controllers)
        if profile.has_node:
            node.wait_until_ready(profile, tools, processes, api)
        else:
            simulated.set_nodes(api, processes, options.nodes)
        say(f"{profile.name} is up: export KUBECONFIG={profile.kubeconfig}")

    def _adapt(self, tools: Tools, wanted: Options) -> None:
        """Change a running cluster in place where it differs from what is wanted."""
        profile, processes = self.profile, self.processes
        if wanted.controllers != self.options.controllers:
            processes.stop("kube-controller-manager")
            control_plane.start_controller_manager(profile, tools, processes, wanted.controllers)
            say(f"controllers: {wanted.controllers}")
        if profile.has_node and wanted.mounts != self.options.mounts:
            node.restart_runtime(profile, processes, wanted.mounts)
        if not profile.has_node:
            simulated.set_nodes(Api(profile), processes, wanted.nodes)
        say(f"{profile.name} is up already: export KUBECONFIG={profile.kubeconfig}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(f"profile-{self.profile.name}"):
            yield
        root = run_root()
        if root.exists() and not any(root.iterdir()):
            shutil.rmtree(root)

    def status(self) -> list[str]:
        """Lines for a person: each process with its memory, and how to reach the cluster."""
        processes = {process.name: process for process in self.processes.all()}
        if not processes:
            return [f"{self.profile.name}: down"]
        lines = [f"{self.profile.name}: {'up' if self.is_up else 'BROKEN'}"]
        total = 0
        for name in (*self.expected, *(name for name in processes if name not in self.expected)):
            process = processes.get(name)
            memory = process.memory if process and process.alive else 0
            total += memory
            state = "missing" if process is None else "up" if process.alive else "DEAD"
            pid = process.pid if process else "-"
            lines.append(f"  {name:<24} {pid:>8} {state:<7} {memory / (1 << 20):7.1f} MiB")
        lines.append(f"  {'all':<24} {'':>8} {'':<7} {total / (1 << 20):7.1f} MiB")
        lines.append(f"  KUBECONFIG={self.profile.kubeconfig}")
        return lines


def clusters(name: str | None = None) -> list[Cluster]:
    """The cluster of this profile, or all."""
    return [Cluster(profile) for profile in PROFILES.values() if name in (None, profile.name)]
