"""Any root file system becomes one that machines start from, and what will not work there is said."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from opencomputer.server.templates.images import furnishing
from opencomputer.server.templates.images.config import ImageConfig
from opencomputer.server.templates.images.furnishing import Furniture, furnish
from opencomputer.server.templates.images.rooted import RootedTree
from tests.support.image_tools import needs_root

pytestmark = needs_root

SAYS_NOTHING = ImageConfig({}, None, "", "")
BASE = Path(__file__).parents[5] / "templates/base/files"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "ours.crt"
    path.write_text(CERTIFICATE + "\n")
    return path


def lay(root: Path, files: Mapping[str, str], mode: int = 0o755) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)


def prepare(root: Path, config: ImageConfig = SAYS_NOTHING, *certificates: Path) -> list[str]:
    return furnish(RootedTree(root), config, Furniture(certificates, trust_host=False))


def test_an_empty_image_becomes_a_machines_root(root: Path) -> None:
    """The user, the home with its other name, names, and where the machine mounts things."""
    prepare(root)
    home = (root / "home/sandbox").stat()
    assert (home.st_uid, home.st_gid) == (1000, 1000)
    assert os.readlink(root / "workspace") == "/home/sandbox"
    assert "sandbox:x:1000:1000::/home/sandbox:/bin/sh" in (root / "etc/passwd").read_text()
    for folder in (".oc", "dev", "proc", "sys", "run"):
        assert (root / folder).is_dir(), folder
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("name", ["etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/machine-id"])
def test_names_are_those_of_the_base_template(root: Path, name: str) -> None:
    """Also where the image has others, behind a link."""
    lay(root, {"run/other": "of the image"})
    (root / "etc").mkdir()
    (root / name).symlink_to("/run/other")
    prepare(root)
    assert (root / name).read_text() == (BASE / name).read_text()
    assert (root / "run/other").read_text() == "of the image"


def test_sudo_is_that_of_the_base_template(root: Path) -> None:
    """Both lead to the first process of the machine."""
    lay(root, {"bin/sh": "", "etc/sudoers.d/README": ""})
    prepare(root)
    assert (root / "usr/local/bin/sudo").read_text() == (BASE / "usr/local/bin/sudo").read_text()
    assert (root / "usr/local/bin/sudo").stat().st_mode & 0o777 == 0o755
    assert (root / "etc/sudoers.d/sandbox").stat().st_mode & 0o777 == 0o440


def test_a_second_time_changes_nothing(root: Path, certificate: Path) -> None:
    """An image may have been made from a template."""
    lay(root, {"etc/passwd": "root:x:0:0:::\n", "etc/shadow": "root:*:1::::::\n", BUNDLE: "theirs\n"}, 0o644)

    def contents() -> dict[str, str]:
        return {str(path): path.read_text() for path in root.rglob("*") if path.is_file()}

    prepare(root, SAYS_NOTHING, certificate)
    first = contents()
    prepare(root, SAYS_NOTHING, certificate)
    assert contents() == first


def test_the_images_environment_is_what_sudo_and_login_shells_find(root: Path) -> None:
    """Values of several lines cannot be written there."""
    lay(root, {"etc/profile.d/x.sh": ""})
    prepare(root, ImageConfig({"PATH": "/opt/bin:/bin", "A": "b c", "TWO": "1\nPATH=/evil"}, None, "", ""))
    lines = (root / "etc/opencomputer/environment").read_text().splitlines()
    assert lines[1:] == ["PATH=/opt/bin:/bin", "A=b c"]
    assert "/etc/opencomputer/environment" in (root / "etc/profile.d/opencomputer.sh").read_text()


def test_the_login_script_is_that_of_the_base_template(root: Path) -> None:
    lay(root, {"etc/profile.d/x.sh": ""})
    prepare(root)
    name = "etc/profile.d/opencomputer.sh"
    assert (root / name).read_text() == (BASE / name).read_text()


def test_a_missing_working_directory_is_made_for_the_user(root: Path) -> None:
    """One that is there belongs to whom the image gave it."""
    (root / "srv").mkdir()
    prepare(root, ImageConfig({}, "/app/x", "", ""))
    prepare(root, ImageConfig({}, "/srv", "", ""))
    assert ((root / "app/x").stat().st_uid, (root / "srv").stat().st_uid) == (1000, 0)


def test_a_workspace_of_the_images_own_stays(root: Path) -> None:
    """And that is said."""
    lay(root, {"workspace/code": "x"})
    assert any("/workspace" in note for note in prepare(root))
    assert (root / "workspace/code").read_text() == "x"


@pytest.mark.parametrize("bundle", [BUNDLE, "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"])
def test_the_hosts_extra_authorities_are_trusted(root: Path, certificate: Path, bundle: str) -> None:
    """In the image's own bundle, and in the one that clients are pointed to."""
    lay(root, {bundle: "theirs\n"}, 0o644)
    prepare(root, SAYS_NOTHING, certificate)
    assert (root / bundle).read_text() == (root / BUNDLE).read_text() == f"theirs\n{CERTIFICATE}\n"
    installed = root / "usr/local/share/ca-certificates/opencomputer-host-ours.crt"
    assert installed.read_text() == CERTIFICATE + "\n"
    assert f"SSL_CERT_FILE=/{BUNDLE}" in (root / "etc/opencomputer/environment").read_text()


def test_an_image_without_authorities_gets_the_hosts(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the host is not to be trusted: then clients are not pointed to what is not there."""
    (tmp_path / "bundle").write_text("the host's\n")
    monkeypatch.setattr(furnishing, "_HOST_BUNDLE", tmp_path / "bundle")
    notes = prepare(root)
    assert any("authorities" in note for note in notes)
    assert "SSL_CERT_FILE" not in (root / "etc/opencomputer/environment").read_text()
    furnish(RootedTree(root), SAYS_NOTHING, Furniture((), trust_host=True))
    assert (root / BUNDLE).read_text() == "the host's\n"


@pytest.mark.parametrize(
    ("programs", "shell", "note"),
    [
        ([], "/bin/sh", "no /bin/sh"),
        (["bin/sh"], "/bin/sh", "no bash"),
        (["bin/sh", "bin/bash"], "/bin/bash", None),
    ],
)
def test_the_best_shell_there_is_becomes_the_users(
    root: Path, programs: list[str], shell: str, note: str | None
) -> None:
    """What does not work without a better one is said."""
    lay(root, dict.fromkeys(programs, ""))
    notes = prepare(root)
    assert (root / "etc/passwd").read_text().rstrip().endswith(shell)
    assert [each for each in notes if "sh:" in each or "bash:" in each or "no bash" in each] == [
        each for each in notes if note and each.startswith(note)
    ]
    assert (note is None) or any(each.startswith(note) for each in notes)
