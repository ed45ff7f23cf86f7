"""Images of all kinds become templates by the real skopeo and umoci; hostile ones become nothing at all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.templates.catalogue import Template, current_template, find_template, list_templates
from opencomputer.server.templates.commands import BuildFailed
from opencomputer.server.templates.images import importer
from opencomputer.server.templates.images.importer import ImportLimits, ImportOptions, import_template
from opencomputer.server.templates.layers import InstalledTemplates
from tests.support.image_tools import needs_image_tools
from tests.support.oci_layout import Image, Layer, pack, write_layout

pytestmark = needs_image_tools

OPTIONS = ImportOptions({}, trust_host_certificates=False)
SAID: Mapping[str, object] = {"Env": ["GREETING=hello", "PATH=/opt/bin:/bin"], "WorkingDir": "/srv/app"}


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return tmp_path / "web"


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    return tmp_path / "templates"


def two_layers() -> Image:
    lower = Layer().folder("etc").file("etc/passwd", "root:x:0:0:::\n").file("gone", "x").folder("dir")
    lower.file("dir/hidden", "x").file("kept", "lower").file("su", mode=0o4755)
    upper = Layer().file(".wh.gone").folder("dir").file("dir/.wh..wh..opq").file("dir/new", "upper")
    return Image([lower, upper], {**SAID, "User": "node"})


def fetch(
    templates: Path, source: str, *, options: ImportOptions = OPTIONS, name: str | None = None
) -> Template:
    return import_template(source, name, templates, lambda _line: None, options)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def nothing_is_left(templates: Path) -> bool:
    return names(templates) <= {".lock", "web"}


def test_an_images_layers_are_laid_over_each_other(layout: Path, templates: Path) -> None:
    """What an upper layer deletes or hides is gone, and nothing tells of it any more."""
    write_layout(layout, two_layers())
    root = fetch(templates, f"oci:{layout}:latest").rootfs
    assert not (root / "gone").exists()
    assert [path.name for path in (root / "dir").iterdir()] == ["new"]
    assert (root / "kept").read_text() == "lower"
    assert not [name for name in names(root) if ".wh." in name]


def test_what_the_image_says_is_the_templates(layout: Path, templates: Path) -> None:
    """Variables and folder are defaults of its sandboxes; its user and digest are written down."""
    digest = write_layout(layout, two_layers())
    template = fetch(templates, f"oci:{layout}:latest")
    assert template == current_template(templates, "web")
    assert (template.environment, template.workdir) == (
        {"GREETING": "hello", "PATH": "/opt/bin:/bin"},
        "/srv/app",
    )
    assert template.image is not None
    assert (template.image.digest, template.image.user) == (digest, "node")
    layers = InstalledTemplates(templates).get("web")
    assert layers is not None
    assert (layers.environment, layers.workdir) == (template.environment, "/srv/app")


def test_the_same_image_is_fetched_once(layout: Path, templates: Path, tmp_path: Path) -> None:
    """Whether it comes in a folder or in a file."""
    write_layout(layout, two_layers())
    pack(layout, tmp_path / "web.tar")
    first = fetch(templates, f"oci:{layout}:latest")
    assert fetch(templates, f"oci-archive:{tmp_path}/web.tar") == first
    assert fetch(templates, f"oci:{layout}") == first


def test_what_docker_saves_can_be_imported(layout: Path, templates: Path, tmp_path: Path) -> None:
    """It is another format; layers and configuration are the same."""
    write_layout(layout, two_layers())
    archive = f"docker-archive:{tmp_path}/saved.tar"
    policy = [] if Path("/etc/containers/policy.json").exists() else ["--insecure-policy"]
    copy = ["skopeo", *policy, "copy", "--quiet", f"oci:{layout}", f"{archive}:web:1.0"]
    subprocess.run(copy, check=True)
    template = fetch(templates, archive)
    assert (template.name, template.workdir) == ("saved", "/srv/app")
    assert (template.rootfs / "dir/new").read_text() == "upper"
    assert fetch(templates, archive) == template


def test_a_tag_that_moved_gives_another_build(layout: Path, templates: Path) -> None:
    """What was made from the former one goes on with that; back again, it is the former one."""
    source = f"oci:{layout}:latest"
    write_layout(layout, Image([Layer().file("version", "1")]))
    first = fetch(templates, source)
    write_layout(layout, Image([Layer().file("version", "2")]))
    second = fetch(templates, source)
    assert first.hash != second.hash
    installed = InstalledTemplates(templates)
    old, new = installed.find("web", first.hash), installed.get("web")
    assert old is not None
    assert new is not None
    assert [(each.layers[0] / "version").read_text() for each in (old, new)] == ["1", "2"]
    write_layout(layout, Image([Layer().file("version", "1")]))
    assert fetch(templates, source) == first
    assert len(list_templates(templates)) == 2


def test_trusting_another_authority_gives_another_build(
    layout: Path, templates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template has it in its bundle."""
    write_layout(layout, two_layers())
    (tmp_path / "ours.crt").write_text("ours\n")
    monkeypatch.setattr(importer, "extra_certificates", lambda: [tmp_path / "ours.crt"])
    plain = fetch(templates, f"oci:{layout}")
    trusting = fetch(templates, f"oci:{layout}", options=replace(OPTIONS, trust_host_certificates=True))
    assert plain.hash != trusting.hash


def test_an_image_is_found_by_its_tag(layout: Path, templates: Path) -> None:
    """One layout can hold several."""
    write_layout(layout, Image([Layer().file("version", "1")]), tag="one")
    write_layout(layout, Image([Layer().file("version", "2")]), tag="two")
    template = fetch(templates, f"oci:{layout}:one", name="other")
    assert (template.name, (template.rootfs / "version").read_text()) == ("other", "1")


def test_only_root_gets_to_an_images_programs(layout: Path, templates: Path) -> None:
    """Set-user-ID programs of unknown origin must not serve the users of the host."""
    write_layout(layout, two_layers())
    template = fetch(templates, f"oci:{layout}")
    assert (template.rootfs / "su").stat().st_mode & 0o4000
    assert template.rootfs.parent.stat().st_mode & 0o077 == 0
    assert template.rootfs.stat().st_mode & 0o777 == 0o755


def test_an_image_that_is_not_there_says_so(layout: Path, templates: Path) -> None:
    """In skopeo's words, and without traces."""
    with pytest.raises(BuildFailed, match="`skopeo` failed"):
        fetch(templates, f"oci:{layout}:latest")
    write_layout(layout, two_layers())
    with pytest.raises(BuildFailed, match="nope"):
        fetch(templates, f"oci:{layout}:nope")
    assert nothing_is_left(templates)


def test_a_changed_blob_is_refused(layout: Path, templates: Path) -> None:
    """Layers are what the manifest says or nothing."""
    write_layout(layout, two_layers())
    largest = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-1] ^= 1
    largest.write_bytes(content)
    with pytest.raises(BuildFailed):
        fetch(templates, f"oci:{layout}")
    assert nothing_is_left(templates)


def test_an_image_for_another_processor_is_refused(layout: Path, templates: Path) -> None:
    """Its programs could not run."""
    write_layout(layout, replace(two_layers(), architecture="s390x"))
    with pytest.raises(BuildFailed, match="s390x"):
        fetch(templates, f"oci:{layout}")
    assert nothing_is_left(templates)


def limited(size_bytes: int) -> ImportOptions:
    return replace(OPTIONS, limits=ImportLimits(size_bytes))


def test_a_bomb_is_stopped(layout: Path, templates: Path) -> None:
    """A few kilobytes that unpack to more than is allowed."""
    write_layout(layout, Image([Layer().file("zeros", bytes(64 << 20))]))
    with pytest.raises(BuildFailed, match="more than 16 MiB"):
        fetch(templates, f"oci:{layout}", options=limited(16 << 20))
    assert nothing_is_left(templates)


def test_names_alone_are_limited_too(layout: Path, templates: Path) -> None:
    """Empty files take no space of their own and fill a disk all the same."""
    layer = Layer()
    for number in range(1000):
        layer.file(f"f{number}")
    write_layout(layout, Image([layer]))
    with pytest.raises(BuildFailed, match="more than 819 files"):
        fetch(templates, f"oci:{layout}", options=limited(16 << 20))
    assert nothing_is_left(templates)


def test_folders_are_not_nested_without_end(layout: Path, templates: Path) -> None:
    """umoci would take hours over a few kilobytes."""
    write_layout(layout, Image([Layer().folder("d/" * 1500)]))
    with pytest.raises(BuildFailed, match="nested"):
        fetch(templates, f"oci:{layout}")
    assert nothing_is_left(templates)


HOSTILE: Mapping[str, Callable[[str], list[Layer]]] = {
    "a name that climbs": lambda out: [Layer().file(f"../../../../../../../../..{out}/canary", "evil")],
    "an absolute name": lambda out: [Layer().file(f"{out}/canary", "evil")],
    "a file behind a link": lambda out: [Layer().link("ln", out).file("ln/canary", "evil")],
    "a file behind a lower layer's link": lambda out: [
        Layer().link("ln", out),
        Layer().file("ln/canary", "evil").file("ln/new", "evil"),
    ],
    "a file over a link": lambda out: [Layer().link("f", f"{out}/canary"), Layer().file("f", "evil")],
    "a hard link out of the tree": lambda out: [Layer().hard_link("h", f"{out}/canary").file("h", "evil")],
    "a hard link behind a link": lambda out: [Layer().link("ln", out).hard_link("h", "ln/canary")],
    "a deletion behind a link": lambda out: [Layer().link("ln", out), Layer().file("ln/.wh.canary")],
    "hiding behind a link": lambda out: [Layer().link("ln", out), Layer().file("ln/.wh..wh..opq")],
    "a deletion of the folder above": lambda out: [Layer().file(".wh...")],
    "a root that is a link": lambda out: [Layer().link(".", out).file("canary", "evil")],
    "a root that is a file": lambda out: [Layer().file(".", "evil")],
    "a root nobody may enter": lambda out: [Layer().folder("./", mode=0, uid=1000)],
    "accounts behind a link": lambda out: [Layer().link("etc", out)],
    "accounts that are a link": lambda out: [Layer().folder("etc").link("etc/passwd", f"{out}/canary")],
    "a home behind a link": lambda out: [Layer().link("home", out).link("tmp", out).link("run", out)],
    "certificates behind a link": lambda out: [
        Layer().folder("etc/ssl/certs").link("etc/ssl/certs/ca-certificates.crt", f"{out}/canary")
    ],
    "a disk of the host": lambda out: [Layer().device("disk", 8, 0).device("dev/mem", 1, 1)],
    "an overlay's own attributes": lambda out: [
        Layer().folder("a", pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/etc"})
    ],
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_image_changes_nothing_outside(
    layout: Path, templates: Path, tmp_path: Path, attack: str
) -> None:
    """It either becomes a template that holds nothing of the host, or nothing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("untouched")
    write_layout(layout, Image(HOSTILE[attack](str(outside))))
    templates.mkdir()
    (templates / "other").mkdir()
    try:
        root = fetch(templates, f"oci:{layout}").rootfs
    except BuildFailed:
        assert names(templates) <= {".lock", "web", "other"}
    else:
        assert root.is_dir()
        assert not root.is_symlink()
        assert root.stat().st_mode & 0o755 == 0o755
        for path in root.rglob("*"):
            assert not path.is_block_device()
            assert not path.is_char_device()
            assert path.is_symlink() or not path.is_file() or "untouched" not in path.read_text()
            assert not [name for name in os.listxattr(path, follow_symlinks=False) if "overlay" in name]
    assert names(outside) == {"canary"}
    assert (outside / "canary").read_text() == "untouched"
    assert (outside / "canary").stat().st_nlink == 1
    assert layout.is_dir()


def test_another_import_of_the_name_begins_with_nothing_half_done(layout: Path, templates: Path) -> None:
    """What a killed import left is gone."""
    (templates / "web/.building-x/rootfs").mkdir(parents=True)
    write_layout(layout, two_layers())
    template = fetch(templates, f"oci:{layout}")
    assert {path.name for path in (templates / "web").iterdir()} == {"current", template.hash}
    assert find_template(templates, "web", template.hash) == template
