"""How images are named, what the template is called then, and what skopeo and umoci are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencomputer.server.templates.images.source import (
    InvalidSource,
    choose_name,
    inspect_arguments,
    parse_digest,
    parse_source,
    program_environment,
    unpack_arguments,
)

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    "text", ["docker://alpine", "docker://host:5000/a/b:1.0", "oci:dir:tag", "oci-archive:/a.tar", "dir:x"]
)
def test_a_source_is_passed_on_as_it_was_written(text: str) -> None:
    """skopeo knows what is behind the colon."""
    assert str(parse_source(text)) == text


@pytest.mark.parametrize(
    "text", ["", "alpine", "alpine:3.20", "--help", "docker:alpine", "docker://", "oci:", "oci:a\nb", "ssh:x"]
)
def test_what_is_no_source_is_refused(text: str) -> None:
    """Nothing that skopeo could take for an option or for another kind of place gets to it."""
    with pytest.raises(InvalidSource):
        parse_source(text)


def test_a_name_without_a_place_is_told_how_to_be_written() -> None:
    """Most people come from `docker pull alpine`."""
    with pytest.raises(InvalidSource, match=r"docker://alpine:3\.20"):
        parse_source("alpine:3.20")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("docker://python:3.12-slim", "python"),
        ("docker://host.example:5000/team/My_App:1", "my-app"),
        ("docker://web@" + DIGEST, "web"),
        ("oci:/images/web:latest", "web"),
        ("oci:/images/web", "web"),
        ("oci-archive:web.tar.gz:latest", "web"),
        ("docker-archive:/tmp/web.tar", "web"),
    ],
)
def test_a_template_is_called_like_its_image(source: str, name: str) -> None:
    """Without place, tag and ending."""
    assert choose_name(parse_source(source), None) == name


def test_a_given_name_wins() -> None:
    """Even `base`, whose template an operator may replace knowingly."""
    source = parse_source("docker://python")
    assert choose_name(source, "py") == "py"
    assert choose_name(source, "base") == "base"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("docker://ubuntu:24.04", None),
        ("docker://base", None),
        ("docker://python", "ubuntu"),
        ("docker://python", "default"),
        ("docker://python", ""),
        ("docker://python", "../etc"),
        ("docker://python", ".runtime"),
        ("docker://python", "A"),
        ("oci:/:x", None),
    ],
)
def test_names_that_mean_something_else_are_refused(source: str, name: str | None) -> None:
    """Aliases of the default template could never be reached; folders are not names."""
    with pytest.raises(InvalidSource):
        choose_name(parse_source(source), name)


@pytest.mark.parametrize(
    ("source", "pinned"),
    [
        ("docker://alpine:3.20", f"docker://alpine@{DIGEST}"),
        ("docker://host:5000/a/b", f"docker://host:5000/a/b@{DIGEST}"),
        ("docker://a@sha256:1", "docker://a@sha256:1"),
        ("oci:dir:tag", "oci:dir:tag"),
    ],
)
def test_what_is_fetched_is_what_was_looked_up(source: str, pinned: str) -> None:
    """A tag may move between the two."""
    assert str(parse_source(source).at(DIGEST)) == pinned


def test_the_digest_is_found_among_warnings() -> None:
    """Only a whole digest counts."""
    assert parse_digest(["level=warning msg=x", DIGEST, ""]) == DIGEST
    assert parse_digest(["sha256:abc", f"at {DIGEST}"]) is None


def test_the_source_is_one_argument() -> None:
    """Whatever is in it, and never before the options."""
    arguments = inspect_arguments(parse_source("oci:a b;c:tag"), "amd64")
    assert arguments[-1] == "oci:a b;c:tag"
    assert "--override-arch=amd64" in arguments
    assert unpack_arguments(Path("/l"), Path("/r"))[-2:] == ["/l:image", "/r"]


def test_programs_see_proxies_and_credentials_and_nothing_else() -> None:
    """Their temporary files are in the draft, where they are counted and go with it."""
    operator = {"HTTPS_PROXY": "http://p", "HOME": "/home/me", "SECRET": "x", "TMPDIR": "/mine", "PATH": "/x"}
    environment = program_environment(operator, Path("/draft"))
    assert (environment["HTTPS_PROXY"], environment["HOME"]) == ("http://p", "/home/me")
    assert environment["TMPDIR"] == "/draft"
    assert "SECRET" not in environment
    assert "/x" not in environment["PATH"]
