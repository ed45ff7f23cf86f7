"""The set-up program: its steps, what it says about them, and the decisions it takes."""

from __future__ import annotations

import hashlib
import importlib
import io
import sys
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from opencomputer.server.host.distribution import Distribution
from opencomputer.server.templates.sources import Source

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
DEBIAN = Distribution("debian", "bookworm", "x86_64", "Debian GNU/Linux 12 (bookworm)")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    return lambda name: importlib.import_module(f"machine_setup.{name}")


@pytest.fixture
def steps(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("steps")


def test_steps_are_done_in_order_and_reported(steps: ModuleType) -> None:
    """Each line says what was done and how long it took."""
    times = iter([0.0, 1.5, 2.0, 2.25])
    out = io.StringIO()
    display = steps.Display(out=out, clock=lambda: next(times))

    def make(display: object) -> str:
        return "made"

    def find(display: object) -> str:
        return "was there"

    done = steps.run_steps([steps.Step("first", make), steps.Step("second", find)], display)
    assert done
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["✓", "first", "made", "(1.5", "s)"],
        ["✓", "second", "was", "there", "(0.2", "s)"],
    ]


def test_a_failing_step_ends_the_set_up_and_says_how_to_mend_it(steps: ModuleType) -> None:
    """Later steps are not tried; the reason and the remedy are the last things on the screen."""
    tried: list[str] = []

    def fail(display: object) -> str:
        raise steps.StepFailed("no mirror", "check the network", "E: unreachable")

    def later(display: object) -> str:
        tried.append("later")
        return ""

    out = io.StringIO()
    done = steps.run_steps([steps.Step("a", fail), steps.Step("b", later)], steps.Display(out=out))
    assert (done, tried) == (False, [])
    assert "no mirror" in out.getvalue()
    assert "E: unreachable" in out.getvalue()
    assert out.getvalue().endswith("How to fix it: check the network\n")


def test_without_a_terminal_only_phases_are_printed(steps: ModuleType) -> None:
    """A log of continuous integration is not flooded."""
    out = io.StringIO()
    display = steps.Display(out=out)
    display.begin("packages")
    display.detail("installing")
    display.detail("Unpacking bash", passing=True)
    assert out.getvalue().splitlines() == ["    packages: installing"]


def test_a_programs_lines_are_shown_logged_and_returned(steps: ModuleType) -> None:
    """Everything a program says is in the log, whatever was on the screen."""
    log, seen = io.StringIO(), list[str]()
    display = steps.Display(out=io.StringIO(), log=log)
    lines = steps.run_program(["printf", "one\\ntwo"], display, fix="", show=seen.append)
    assert lines == seen == ["one", "two"]
    assert log.getvalue().splitlines() == ["$ printf one\\ntwo", "one", "two"]


@pytest.mark.parametrize("arguments", [["sh", "-c", "echo broken; exit 4"], ["no-such-program"]])
def test_a_failing_program_fails_the_step(steps: ModuleType, arguments: list[str]) -> None:
    """The remedy is the caller's, the output the program's."""
    with pytest.raises(steps.StepFailed) as failure:
        steps.run_program(arguments, steps.Display(out=io.StringIO()), fix="do this")
    assert failure.value.fix == "do this"


@pytest.mark.parametrize(
    ("host", "user", "kernel", "system", "complaint"),
    [
        (DEBIAN, 0, "6.1.0", "darwin", "not Linux"),
        (DEBIAN, 1000, "6.1.0", "linux", "needs root"),
        (Distribution("fedora", "", "x86_64", "Fedora 42"), 0, "6.1.0", "linux", "not Debian or Ubuntu"),
        (Distribution("debian", "bookworm", "aarch64", "Debian"), 0, "6.1.0", "linux", "only x86-64"),
        (DEBIAN, 0, "4.4.0", "linux", "too old"),
    ],
)
def test_an_unfit_machine_is_refused_first(
    module: Callable[[str], ModuleType],
    host: Distribution,
    user: int,
    kernel: str,
    system: str,
    complaint: str,
) -> None:
    """A person learns at once what the trouble is, not in the middle of an installation."""
    machine, steps = module("machine"), module("steps")
    with pytest.raises(steps.StepFailed, match=complaint) as failure:
        machine.refuse_unsupported(host, user, kernel, system)
    assert failure.value.fix


def test_backports_come_from_the_mirror_in_use_and_give_one_package(
    module: Callable[[str], ModuleType],
) -> None:
    """A mirror inside a company stays the only one; nothing but the named package is ever taken."""
    packages = module("packages")
    release = [
        Source(("http://m.example/debian-security",), ("bookworm-security",), ("main",)),
        Source(("http://m.example/debian",), ("bookworm", "bookworm-updates"), ("main",)),
    ]
    text = packages.backports_source(release, "bookworm")
    assert "URIs: http://m.example/debian\nSuites: bookworm-backports\n" in text
    assert packages.backports_preferences("bookworm", "runsc").endswith(
        "Package: runsc\nPin: release n=bookworm-backports\nPin-Priority: 600\n"
    )


@pytest.mark.parametrize(
    ("policy", "version"),
    [
        ("runsc:\n  Installed: (none)\n  Candidate: 0.0~20240729.0-4\n", "0.0~20240729.0-4"),
        ("runsc:\n  Installed: (none)\n  Candidate: (none)\n", None),
        ("", None),
    ],
)
def test_what_apt_would_install_is_read(
    module: Callable[[str], ModuleType], policy: str, version: str | None
) -> None:
    """No candidate and an unknown package are the same to us."""
    assert module("packages").candidate_version("runsc", policy) == version


def test_only_what_images_need_can_be_done_without(module: Callable[[str], ModuleType]) -> None:
    """Anything else that apt does not know makes the installation fail, and says so."""
    packages = module("packages")
    known = {"skopeo": "1.9", "mmdebstrap": "1.3"}
    missing = ["mmdebstrap", "nftables", "skopeo", "umoci"]
    assert packages.split_known(missing, known.get) == (["mmdebstrap", "nftables", "skopeo"], ["umoci"])


def test_uv_is_told_where_pip_gets_its_packages(module: Callable[[str], ModuleType]) -> None:
    """uv does not read pip's configuration; an index of its own wins."""
    environment = module("environment")
    assert environment.index_settings({}, "https://i.example")["UV_DEFAULT_INDEX"] == "https://i.example"
    assert "UV_DEFAULT_INDEX" not in environment.index_settings({"UV_INDEX_URL": "x"}, "https://i.example")
    assert "UV_DEFAULT_INDEX" not in environment.index_settings({}, None)


def test_of_a_release_archive_only_the_known_files_are_unpacked(
    module: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """A file that points elsewhere is not written, even if the checksum was right."""
    archive = tmp_path / "gvisor.tar.bz2"
    with tarfile.open(archive, "w:bz2") as release:
        for name in ("./runsc", "gvisor-bin/gvisor_sentry", "../evil", "gvisor-bin/../evil", "LICENSE"):
            member = tarfile.TarInfo(name)
            member.size = 2
            release.addfile(member, io.BytesIO(b"ok"))
    folder = tmp_path / "out"
    folder.mkdir()
    module("runsc").unpack(archive, folder)
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == ["gvisor.tar.bz2", "out/gvisor-bin/gvisor_sentry", "out/runsc"]


@pytest.fixture
def release(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A web server in front of a folder, as the official download is one."""
    folder = tmp_path / "release"
    folder.mkdir()
    handler = partial(QuietFiles, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, ThreadPoolExecutor(1) as threads:
        threads.submit(server.serve_forever, 0.05)
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def publish(folder: Path, name: str, content: bytes, *, checksum: str | None = None) -> None:
    (folder / name).write_bytes(content)
    (folder / f"{name}.sha512").write_text(f"{checksum or hashlib.sha512(content).hexdigest()}  {name}\n")


def fetch(module: Callable[[str], ModuleType], url: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runsc = module("runsc")
    monkeypatch.setattr(runsc, "OFFICIAL", url)
    work.mkdir()
    runsc.fetch_official(work, module("steps").Display(out=io.StringIO()))


def test_an_official_release_with_its_companions_is_installed(
    module: Callable[[str], ModuleType],
    release: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Current releases are an archive; what runsc starts lies beside it and can be executed."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:bz2") as archive:
        for name in ("runsc", "gvisor-bin/gvisor_sentry"):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"ok"))
    publish(release[0], "gvisor.tar.bz2", content.getvalue())
    fetch(module, release[1], tmp_path / "work", monkeypatch)
    installed = sorted(path for path in (tmp_path / "work").rglob("*") if path.is_file())
    assert [path.name for path in installed] == ["gvisor_sentry", "runsc"]
    assert all(path.stat().st_mode & 0o111 == 0o111 for path in installed)


def test_an_older_official_release_is_one_file(
    module: Callable[[str], ModuleType],
    release: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there is no archive, the binary alone is taken."""
    publish(release[0], "runsc", b"binary")
    fetch(module, release[1], tmp_path / "work", monkeypatch)
    assert (tmp_path / "work/runsc").read_bytes() == b"binary"


def test_a_download_that_does_not_match_its_checksum_stops_the_set_up(
    module: Callable[[str], ModuleType],
    release: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is neither used nor silently replaced by another build."""
    publish(release[0], "runsc", b"tampered", checksum="0" * 128)
    with pytest.raises(module("steps").StepFailed, match="checksum"):
        fetch(module, release[1], tmp_path / "work", monkeypatch)


def test_an_official_build_out_of_reach_is_no_failure(
    module: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next way is tried instead, at once."""
    with pytest.raises(module("runsc").Unreachable):
        fetch(module, "http://no-such-host.invalid", tmp_path / "work", monkeypatch)
