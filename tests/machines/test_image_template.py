"""Images that were not made for OpenComputer boot as machines: the guest brings all it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from opencomputer.server.templates.catalogue import Template
from opencomputer.server.templates.images.importer import ImportOptions, import_template
from opencomputer.server.templates.usage import machines_using
from tests.support.driver_harness import GvisorHarness
from tests.support.image_tools import needs_image_tools
from tests.support.machine_shell import open_machine, output, shell
from tests.support.oci_layout import Image, Layer, write_layout

pytestmark = [pytest.mark.anyio, pytest.mark.machines, needs_image_tools]

PROGRAMS = {"/bin/dash": "bin/sh"} | {f"/bin/{name}": f"bin/{name}" for name in ("cat", "id", "ls", "stat")}


def small_system(folder: Path, *, setuid: str | None = None) -> Layer:
    """A shell and a few programs of this host, with the libraries they need: two megabytes or so."""
    for source, target in PROGRAMS.items():
        needed = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout
        for path in {*re.findall(r"(/\S+) \(0x", needed)}:
            _copy(path, folder / path[1:])
        _copy(source, folder / target)
    if setuid is not None:
        (folder / setuid).chmod(0o4755)
    return Layer().tree(folder)


def _copy(source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def install(tmp_path: Path, image: Image) -> Template:
    write_layout(tmp_path / "small", image)
    options = ImportOptions({}, trust_host_certificates=False)
    return import_template(f"oci:{tmp_path}/small", None, tmp_path / "templates", print, options)


async def test_an_image_boots_and_is_a_sandbox(harness: GvisorHarness, tmp_path: Path) -> None:
    """With user, home, names and temporary folders; and what upper layers deleted is not there."""
    lower = small_system(tmp_path / "files")
    lower.folder("opt").file("opt/deleted", "x").file("opt/kept", "kept")
    upper = Layer().file("opt/.wh.deleted").file("opt/new", "new")
    template = install(tmp_path, Image([lower, upper], {"WorkingDir": "/srv/app"}))
    spec = replace(harness.spec(), layers=(template.rootfs,))
    async with open_machine(harness, spec) as machine:
        assert machines_using([template.rootfs]) == 1
        assert (
            await output(machine, "id -u; id -un; cd; pwd", user="sandbox") == "1000\nsandbox\n/home/sandbox"
        )
        assert await output(machine, "ls /opt; cat /opt/*", user="sandbox") == "kept\nnew\nkeptnew"
        assert (
            await output(machine, "cd /workspace; echo mine > f; cat /home/sandbox/f", user="sandbox")
            == "mine"
        )
        assert (
            await output(machine, "cd /srv/app; : > mine; echo t > /tmp/t; cat /tmp/t", user="sandbox") == "t"
        )
        assert "169.254.169.253" in await output(machine, "cat /etc/resolv.conf")
        assert await output(machine, "stat -c %F /dev/null /.oc") == "character special file\ndirectory"
    assert machines_using([template.rootfs]) == 0


async def test_a_set_user_id_bit_has_its_meaning_inside_only(harness: GvisorHarness, tmp_path: Path) -> None:
    """As far as the machine's kernel honours it."""
    template = install(tmp_path, Image([small_system(tmp_path / "files", setuid="bin/id")]))
    async with open_machine(harness, replace(harness.spec(), layers=(template.rootfs,))) as machine:
        effective = await output(machine, "id -u", user="sandbox")
    assert effective == ("0" if harness.driver.capabilities.setuid else "1000")


async def test_an_image_without_anything_boots_too(harness: GvisorHarness, tmp_path: Path) -> None:
    """Its files can be reached; a shell is not found, as the import said."""
    template = install(tmp_path, Image([Layer().file("only", "this")]))
    assert template.image is not None
    assert any("no /bin/sh" in note for note in template.image.notes)
    async with open_machine(harness, replace(harness.spec(), layers=(template.rootfs,))) as machine:
        code, printed = await shell(machine, "true")
        assert (code, "command not found" in printed) == (127, True)
