"""The host says in /etc/os-release which distribution it is."""

from __future__ import annotations

from pathlib import Path

from opencomputer.server.host.distribution import extra_certificates, parse_os_release

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\n'
FEDORA = 'PRETTY_NAME="Fedora Linux 42"\nID=fedora\nVERSION_CODENAME=""\n'


def test_debian_is_recognised() -> None:
    """Its name for people, its code name for apt, and the processor."""
    host = parse_os_release(DEBIAN, "x86_64")
    assert (host.id, host.codename, host.name) == ("debian", "bookworm", "Debian GNU/Linux 12 (bookworm)")
    assert host.is_debian_like
    assert str(host) == "debian/bookworm/x86_64"


def test_other_distributions_are_not_taken_for_debian() -> None:
    """Templates are not built from packages that are not there."""
    assert not parse_os_release(FEDORA, "x86_64").is_debian_like
    assert not parse_os_release("", "x86_64").is_debian_like


def test_added_certificates_are_found_wherever_they_lie(tmp_path: Path) -> None:
    """update-ca-certificates takes .crt files from subfolders too, and nothing else."""
    (tmp_path / "company").mkdir()
    for name in ("b.crt", "company/a.crt", "readme.txt"):
        (tmp_path / name).write_text("")
    assert [path.name for path in extra_certificates(tmp_path)] == ["b.crt", "a.crt"]
    assert extra_certificates(tmp_path / "missing") == []
