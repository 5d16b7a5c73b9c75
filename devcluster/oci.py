"""OCI image archives from folders and single programs, in plain Python: a tar of JSON and layer tars.

Layers stay uncompressed: an archive never leaves the machine, and compressing costs more than it saves.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_FOLDERS = {"bin": 0o755, "dev": 0o755, "etc": 0o755, "proc": 0o755, "sys": 0o755, "tmp": 0o1777}


def layer_of_one_program(program: Path, name: str, links: Iterable[str]) -> bytes:
    """A layer with one static program in /bin, and links to it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, mode in _FOLDERS.items():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        _add(tar, f"bin/{name}", program.read_bytes(), 0o755)
        for link in links:
            entry = tarfile.TarInfo(f"bin/{link}")
            entry.type, entry.linkname = tarfile.SYMTYPE, name
            tar.addfile(entry)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def write_archive(target: Path, name: str, layers: Sequence[bytes], config: dict[str, Any]) -> None:
    """Write an archive of one image under this name."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, media_type: str) -> dict[str, Any]:
        key = hashlib.sha256(content).hexdigest()
        blobs[key] = content
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{key}", "size": len(content)}

    described = [blob(layer, "layer.v1.tar") for layer in layers]
    image = {
        "architecture": "amd64",
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in described]},
        # buildah counts these when it adds a layer.
        "history": [{"created_by": "kvpool devcluster"} for _ in described],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(image).encode(), "config.v1+json"),
        "layers": described,
    }
    top = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    top["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [top]}).encode())
        for key, content in blobs.items():
            _add(tar, f"blobs/sha256/{key}", content)
