"""Images of a registry: each is fetched once, and what was looked up is what is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.templates.catalogue import Template
from opencomputer.server.templates.commands import BuildFailed
from opencomputer.server.templates.images.importer import ImportOptions, import_template
from tests.support.image_tools import needs_image_tools
from tests.support.oci_layout import Image, Layer, write_layout
from tests.support.oci_registry import Registry, serve_layout

pytestmark = needs_image_tools


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    write_layout(tmp_path / "layout", Image([Layer().file("version", "1")], {"Env": ["A=b"]}), tag="1.0")
    with serve_layout(tmp_path / "layout", tmp_path / "home") as registry:
        yield registry


def fetch(tmp_path: Path, source: str) -> Template:
    options = ImportOptions({"HOME": str(tmp_path / "home")}, trust_host_certificates=False)
    return import_template(source, None, tmp_path / "templates", lambda _line: None, options)


def test_an_image_of_a_registry_becomes_a_template(registry: Registry, tmp_path: Path) -> None:
    """Called like the image, without registry and tag; the digest is the registry's."""
    template = fetch(tmp_path, f"docker://{registry.address}/team/web:1.0")
    assert (template.name, dict(template.environment)) == ("web", {"A": "b"})
    assert (template.rootfs / "version").read_text() == "1"
    assert template.image is not None
    assert any(path.endswith(f"/manifests/{template.image.digest}") for path in registry.asked)


def test_an_image_that_is_there_is_not_fetched_again(registry: Registry, tmp_path: Path) -> None:
    """Neither its layers nor anything else but what says which one it is."""
    source = f"docker://{registry.address}/web:1.0"
    first = fetch(tmp_path, source)
    layers = registry.blobs_asked()
    assert layers >= 1
    assert fetch(tmp_path, source) == first
    assert registry.blobs_asked() - layers <= 1


def test_a_moved_tag_is_another_image(registry: Registry, tmp_path: Path) -> None:
    """And the former one can still be had by its digest."""
    source = f"docker://{registry.address}/web"
    first = fetch(tmp_path, f"{source}:1.0")
    write_layout(registry.layout, Image([Layer().file("version", "2")]), tag="1.0")
    second = fetch(tmp_path, f"{source}:1.0")
    assert first.hash != second.hash
    assert (second.rootfs / "version").read_text() == "2"
    assert second.image is not None
    again = fetch(tmp_path, f"{source}@{second.image.digest}")
    assert replace(again, image=None) == replace(second, image=None)


def test_an_image_that_a_registry_does_not_have_says_so(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="`skopeo` failed"):
        fetch(tmp_path, f"docker://{registry.address}/web:none")
