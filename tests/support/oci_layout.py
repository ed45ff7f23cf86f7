"""Makes OCI images out of nothing: layers, a configuration, a manifest and an index, in a folder."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


class Layer:
    """One layer's archive, written entry by entry, hostile ones included."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by `archive`

    def file(self, name: str, content: bytes | str = b"", **fields: Any) -> Layer:
        data = content.encode() if isinstance(content, str) else content
        return self._add(name, io.BytesIO(data), {"mode": 0o644, "size": len(data), **fields})

    def folder(self, name: str, **fields: Any) -> Layer:
        return self._add(name, None, {"type": tarfile.DIRTYPE, "mode": 0o755, **fields})

    def link(self, name: str, target: str, **fields: Any) -> Layer:
        return self._add(name, None, {"type": tarfile.SYMTYPE, "linkname": target, **fields})

    def hard_link(self, name: str, target: str) -> Layer:
        return self._add(name, None, {"type": tarfile.LNKTYPE, "linkname": target})

    def device(self, name: str, major: int, minor: int) -> Layer:
        return self._add(name, None, {"type": tarfile.CHRTYPE, "devmajor": major, "devminor": minor})

    def tree(self, folder: Path, below: str = "") -> Layer:
        """Copy a folder of this host in."""
        for path in sorted(folder.rglob("*")):
            self._tar.add(path, f"{below}{path.relative_to(folder)}", recursive=False)
        return self

    def archive(self) -> bytes:
        self._tar.close()
        return self._buffer.getvalue()

    def _add(self, name: str, content: io.BytesIO | None, fields: Mapping[str, Any]) -> Layer:
        entry = tarfile.TarInfo(name)
        for key, value in fields.items():
            setattr(entry, key, value)
        self._tar.addfile(entry, content)
        return self


@dataclass(frozen=True)
class Image:
    """`config` is the part of the configuration that says how to run it."""

    layers: Sequence[Layer | bytes]
    config: Mapping[str, object] = field(default_factory=dict[str, object])
    architecture: str = "amd64"


def write_layout(folder: Path, image: Image, tag: str = "latest") -> str:
    """Write an image as an OCI layout, beside what is there already, and return its manifest's digest."""
    archives = [layer if isinstance(layer, bytes) else layer.archive() for layer in image.layers]
    descriptors = [_blob(folder, gzip.compress(each, 1, mtime=0), _LAYER_TYPE) for each in archives]
    config = {
        "architecture": image.architecture,
        "os": "linux",
        "config": image.config,
        "rootfs": {"type": "layers", "diff_ids": [_digest(each) for each in archives]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST_TYPE,
        "config": _blob(folder, json.dumps(config).encode(), _CONFIG_TYPE),
        "layers": descriptors,
    }
    entry = _blob(folder, json.dumps(manifest).encode(), _MANIFEST_TYPE)
    named = {**entry, "annotations": {"org.opencontainers.image.ref.name": tag}}
    index = {"schemaVersion": 2, "manifests": [*_other_tags(folder, tag), named]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(entry["digest"])


def pack(layout: Path, archive: Path) -> None:
    """The layout as one file, for `oci-archive:`."""
    with tarfile.open(archive, "w") as tar:
        tar.add(layout, ".")


def _other_tags(folder: Path, tag: str) -> list[dict[str, Any]]:
    index = folder / "index.json"
    present: list[dict[str, Any]] = json.loads(index.read_text())["manifests"] if index.exists() else []
    return [each for each in present if each["annotations"]["org.opencontainers.image.ref.name"] != tag]


def _blob(folder: Path, content: bytes, media_type: str) -> dict[str, object]:
    digest = _digest(content)
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest.removeprefix("sha256:")).write_bytes(content)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
