"""The command line: ``python3 -m devcluster COMMAND``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from devcluster import images, teardown
from devcluster.cluster import Cluster, clusters
from devcluster.debian import PACKAGES, ensure_packages
from devcluster.profiles import PROFILES
from devcluster.shell import DevclusterError
from devcluster.toolchain import ensure_tools, tools_paths
from devcluster.venv import ensure_venv, is_complete, venv_path

_EPILOG = """\
Everything that is made once (programs, environments, wheels, images) is kept in $KVPOOL_CACHE, ~/.cache/kvpool
if that is unset, keyed by content. Progress goes to stderr, answers to stdout.

examples:
  python3 -m devcluster up --profile control-plane --nodes 8
  eval "$(python3 -m devcluster env)" && kubectl get nodes
  python3 -m devcluster up --profile node --mount /srv/models:/models
  python3 -m devcluster images && python3 -m devcluster down --all
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 for a failure in words, 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except DevclusterError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m devcluster",
        description="A Kubernetes cluster for development and tests on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(command=run)
        return sub

    def profile(sub: argparse.ArgumentParser, default: str | None, text: str) -> None:
        sub.add_argument("--profile", choices=tuple(PROFILES), default=default, help=text)

    sub = add("up", _up, "bring a cluster up, or change a running one; does nothing if all is as wanted")
    profile(
        sub, "control-plane", "control-plane: simulated nodes, no root. node: real pods, root (default: %(default)s)"
    )
    sub.add_argument("--nodes", type=_count, metavar="N", help="number of simulated nodes (default: 4)")
    sub.add_argument(
        "--mount",
        action="append",
        metavar="SRC:DST",
        type=_mount,
        help="folder of this machine that every container sees read-only at DST (repeatable; node profile)",
    )
    sub.add_argument(
        "--controllers",
        metavar="LIST",
        default=os.environ.get("KVPOOL_CONTROLLERS"),
        help="what the controller-manager runs, e.g. 'garbage-collector-controller,namespace-controller' "
        "(default: *, or $KVPOOL_CONTROLLERS); a running one is restarted with the list",
    )
    sub = add("down", _down, "end a cluster and remove every trace of it")
    profile(sub, None, "which one (default: all)")
    sub.add_argument("--all", action="store_true", help="all profiles, which is the default too")
    sub = add("status", _status, "show processes, memory and kubeconfig; exit code 1 if the asked profile is not up")
    profile(sub, None, "which one (default: all)")
    sub = add("kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig")
    profile(sub, "control-plane", "which one (default: %(default)s)")
    sub = add("leftovers", _leftovers, "print what a cluster left on this machine; exit code 1 if there is anything")
    profile(sub, None, "which one (default: all)")
    add("build", _build, "build or fetch the programs: Kubernetes, kwok, helm")
    sub = add("images", _images, "build the project's images and load them into the node cluster if that is up")
    sub.add_argument("image", nargs="*", metavar="IMAGE", help=f"which ones: {', '.join(images.IMAGES)} (default: all)")
    sub = add("load", _load, "load image archives (OCI or docker tar) into the node cluster")
    sub.add_argument("tar", nargs="+", type=Path)
    sub = add("venv", _venv, "make the environment of requirements/NAME.txt and print its path")
    sub.add_argument("name", metavar="NAME", nargs="?", default="dev")
    sub = add("packages", _packages, "install the Debian packages for a purpose, or name those that are missing")
    sub.add_argument("purpose", choices=tuple(PACKAGES))
    sub = add("env", _env, "print shell exports of PATH (kubectl, helm, environment) and KUBECONFIG, for eval")
    profile(sub, None, "whose KUBECONFIG (default: the one that is up)")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 200:
        raise argparse.ArgumentTypeError("from 0 to 200")
    return number


def _mount(text: str) -> str:
    source, _, target = text.partition(":")
    if not os.path.isabs(source) or not os.path.isabs(target) or not os.path.isdir(source):
        raise argparse.ArgumentTypeError(f"{text}: two absolute folders SRC:DST, of which SRC exists")
    return text


def _up(options: argparse.Namespace) -> int:
    profile = PROFILES[options.profile]
    if profile.has_node and os.geteuid() != 0:
        raise DevclusterError("the node profile runs containers and needs root; control-plane does not")
    if profile.has_node and options.nodes is not None:
        raise DevclusterError("--nodes belongs to the control-plane profile: the node profile is this machine")
    if not profile.has_node and options.mount:
        raise DevclusterError("--mount belongs to the node profile: simulated pods see no files")
    mounts = None if options.mount is None else tuple(sorted(set(options.mount)))
    Cluster(profile).up(nodes=options.nodes, controllers=options.controllers, mounts=mounts)
    return 0


def _down(options: argparse.Namespace) -> int:
    for cluster in clusters(options.profile):
        cluster.down()
    return 0


def _status(options: argparse.Namespace) -> int:
    chosen = clusters(options.profile)
    for cluster in chosen:
        print("\n".join(cluster.status()))
    return 0 if options.profile is None or chosen[0].is_up else 1


def _kubeconfig(options: argparse.Namespace) -> int:
    profile = PROFILES[options.profile]
    if not profile.kubeconfig.exists():
        raise DevclusterError(f"{profile.name} is down: python3 -m devcluster up --profile {profile.name}")
    print(profile.kubeconfig)
    return 0


def _leftovers(options: argparse.Namespace) -> int:
    found = [line for cluster in clusters(options.profile) for line in teardown.leftovers(cluster.profile)]
    print("\n".join(found) if found else "nothing left")
    return 1 if found else 0


def _build(_: argparse.Namespace) -> int:
    tools = ensure_tools()
    print(f"{tools.kubernetes}\n{tools.kwok}\n{tools.helm}")
    return 0


def _images(options: argparse.Namespace) -> int:
    archives = images.ensure_images(tuple(options.image))
    for name, archive in archives.items():
        print(f"{name} {archive}")
    return 0


def _load(options: argparse.Namespace) -> int:
    images.load(options.tar)
    return 0


def _venv(options: argparse.Namespace) -> int:
    print(ensure_venv(options.name))
    return 0


def _packages(options: argparse.Namespace) -> int:
    ensure_packages(options.purpose)
    return 0


def _env(options: argparse.Namespace) -> int:
    folders = [tools_paths().search_path]
    environment = venv_path("dev")
    if is_complete(environment):
        folders.append(str(environment / "bin"))
    print(f'export PATH={shlex.quote(":".join(folders))}:"$PATH"')
    for cluster in clusters(options.profile):
        if options.profile or cluster.is_up:
            print(f"export KUBECONFIG={shlex.quote(str(cluster.profile.kubeconfig))}")
            break
    return 0
