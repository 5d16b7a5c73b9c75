"""Stand-ins for the CUDA libraries that the ordinary build of torch links against.

Those libraries are 2.7 GiB and do nothing on a machine without a GPU. For each, a shared library of a few KiB is
assembled with the same name, the same symbol versions and the symbols that torch looks for. Every function in it
returns 100, CUDA's "no device", and torch then works as a CPU build does.
"""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.shell import run

# What every Linux has, and the driver's own library, which torch opens only when it is there.
_SYSTEM = re.compile(r"^(ld-linux.*|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|libcuda)\.so")
# Symbols without a version are taken for CUDA's by their names.
_CUDA_NAME = re.compile(r"^(nccl|nvshmem|cusparseLt|cufile|cuFile|cu[A-Z]|cuda|cudnn|cupti|nvrtc|cufft|curand|_?nv)")
# A function that returns 100, cudaErrorNoDevice.
_FUNCTION = ".globl {name}\n.type {name},@function\n{name}: mov $100,%eax\nret\n"


@dataclass
class _Wanted:
    """What the libraries of one folder need from libraries that are not there."""

    libraries: set[str] = field(default_factory=set)
    versioned: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    unversioned: set[str] = field(default_factory=set)


def write_stubs(folder: Path) -> list[Path]:
    """Write the stand-ins into torch's library folder, where its libraries look first."""
    wanted = _wanted_by(folder)
    written = []
    unversioned = wanted.unversioned  # any one of the libraries may carry them
    for name in sorted(wanted.libraries):
        written.append(_assemble(folder / name, wanted.versioned[name], unversioned))
        unversioned = set()
    return written


def _wanted_by(folder: Path) -> _Wanted:
    own = sorted(folder.glob("*.so*"))
    present = {path.name for path in own}
    wanted = _Wanted()
    defined: set[str] = set()
    for path in own:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-W", "-d", path))
        wanted.libraries |= {name for name in needed if name not in present and not _SYSTEM.match(name)}
        _collect_symbols(path, wanted, defined)
    wanted.unversioned = {name for name in wanted.unversioned - defined if _CUDA_NAME.match(name) or "nvshmem" in name}
    return wanted


def _collect_symbols(path: Path, wanted: _Wanted, defined: set[str]) -> None:
    library_of = _version_owners(path)
    for line in run("readelf", "-W", "--dyn-syms", path).splitlines():
        columns = line.split()
        if len(columns) < 8 or not columns[0].endswith(":"):
            continue
        binding, section = columns[4], columns[6]
        name, _, version = columns[7].partition("@")
        version = version.lstrip("@")
        if section != "UND":
            defined.add(name)
        elif library_of.get(version) in wanted.libraries:
            wanted.versioned[library_of[version]][version].add(name)
        elif not version and binding == "GLOBAL":
            wanted.unversioned.add(name)


def _version_owners(path: Path) -> dict[str, str]:
    """Which library each needed symbol version belongs to."""
    owners: dict[str, str] = {}
    library = ""
    for line in run("readelf", "-W", "-V", path).splitlines():
        if found := re.search(r"File: (\S+)", line):
            library = found[1]
        if library and (found := re.search(r"Name: (\S+)\s+Flags:.*Version: \d+", line)):
            owners[found[1]] = library
    return owners


def _assemble(path: Path, versions: dict[str, set[str]], unversioned: set[str]) -> Path:
    symbols = sorted(unversioned.union(*versions.values()))
    source = "".join(_FUNCTION.format(name=name) for name in symbols)
    script = "".join(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n" for version, names in versions.items())
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "stub.s").write_text(f'.text\n{source}.section .note.GNU-stack,"",@progbits\n', encoding="ascii")
        (scratch / "versions").write_text(script, encoding="ascii")
        versioned = [f"--version-script={scratch / 'versions'}"] if versions else []
        run("as", "-o", scratch / "stub.o", scratch / "stub.s")
        run("ld", "-shared", "-soname", path.name, *versioned, "-o", path, scratch / "stub.o")
    return path
