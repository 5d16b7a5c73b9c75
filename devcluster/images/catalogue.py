"""The project's images as a table: what each is made from decides when it is made anew."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.packages import requirements_file
from devcluster.paths import REPOSITORY, digest

_HERE = Path(__file__).resolve().parent
_BUILD_FILES = _HERE / "build_files.py"


@dataclass(frozen=True)
class Image:
    """One image: the Dockerfile and target, the requirements whose wheels it installs, and its sources."""

    name: str
    dockerfile: Path = REPOSITORY / "Dockerfile"
    target: str | None = None
    requirements: str | None = None
    sources: tuple[Path, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The name by which a pod asks for it."""
        return f"localhost/kvpool/{self.name}:dev"

    def key(self, base: str) -> str:
        """A key of all that goes into it."""
        pinned = [requirements_file(name) for name in (self.requirements, "pip") if self.requirements and name]
        arguments = [f"{name}={value}" for name, value in sorted(self.arguments.items())]
        return digest([self.dockerfile, *pinned, *self.sources, *arguments, base, self.target or ""])


def version() -> str:
    """The project's version."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def catalogue() -> dict[str, Image]:
    """All images by name."""
    connector = REPOSITORY / "connector"
    contract = (connector / "kvpool_connector" / "__init__.py", connector / "kvpool_connector" / "contract")
    images = (
        Image(
            "operator",
            target="operator",
            requirements="operator",
            sources=(REPOSITORY / "operator", *contract, _BUILD_FILES),
        ),
        Image(
            "router",
            target="router",
            requirements="router",
            sources=(REPOSITORY / "router", _BUILD_FILES),
        ),
        Image(
            "connector",
            target="connector",
            sources=(connector, _BUILD_FILES),
            arguments={"VERSION": version()},
        ),
        Image(
            "mooncake",
            target="mooncake",
            requirements="mooncake-cpu",
            arguments={"MOONCAKE": "cpu"},
        ),
        Image(
            "engine-cpu",
            dockerfile=_HERE / "engine-cpu.Dockerfile",
            sources=(_BUILD_FILES,),
        ),
    )
    return {image.name: image for image in images}
