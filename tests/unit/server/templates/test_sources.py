"""Templates come from the mirrors of the host's own release, whatever format apt was told about them in."""

from __future__ import annotations

from pathlib import Path

from opencomputer.server.templates.sources import (
    Source,
    for_release,
    parse_deb822,
    parse_list,
    read_host_sources,
)

DEB822 = """
# A comment.
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""

LIST = """
# deb http://commented.example/ bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/ubuntu noble main universe  # why
deb-src http://mirror.example/ubuntu noble main
deb http://vendor.example/tools stable main
"""


def test_a_deb822_file_gives_its_binary_stanzas() -> None:
    """Stanzas of sources and disabled ones are left out."""
    assert parse_deb822(DEB822) == [
        Source(
            ("http://mirror.example/debian",),
            ("bookworm", "bookworm-updates", "bookworm-backports"),
            ("main", "contrib"),
            (("Signed-By", "/usr/share/keyrings/debian.gpg"),),
        )
    ]


def test_a_key_written_into_the_stanza_survives() -> None:
    """Signed-By may hold a whole key over several lines."""
    text = "Types: deb\nURIs: http://m/\nSuites: s\nComponents: main\nSigned-By:\n -----BEGIN\n .\n abc\n"
    (source,) = parse_deb822(text)
    assert parse_deb822(source.render()) == [source]
    assert "-----BEGIN" in source.render()


def test_a_one_line_list_gives_its_binary_entries() -> None:
    """Options in brackets are understood, comments are not entries."""
    first, second = parse_list(LIST)
    assert first == Source(
        ("http://mirror.example/ubuntu",),
        ("noble",),
        ("main", "universe"),
        (("Architectures", "amd64"), ("Signed-By", "/k.gpg")),
    )
    assert second.suites == ("stable",)


def test_only_the_release_itself_is_chosen() -> None:
    """Backports and other vendors' repositories never get into a template."""
    chosen = for_release([*parse_deb822(DEB822), *parse_list(LIST)], "bookworm")
    assert [source.suites for source in chosen] == [("bookworm", "bookworm-updates")]


def test_both_kinds_of_files_are_read(tmp_path: Path) -> None:
    """A host may have the old file and the new folder at once; anything else there is not apt's."""
    (tmp_path / "sources.list").write_text(LIST)
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / "debian.sources").write_text(DEB822)
    (folder / "old.list.disabled").write_text(LIST)
    assert len(read_host_sources(tmp_path)) == 3
