"""The documentation site builds without a warning, has a row for all that its references are about, and asks
nobody outside for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from opencomputer.server.domain import errors
from opencomputer.server.http.app import create_app
from opencomputer.server.http.session_api.app import session_api

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

from site_reference import cli, events, http, python, settings  # noqa: E402

from opencomputer.server.domain import lifecycle_events  # noqa: E402

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(built)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return built


def text_of(site: Path, page: str) -> str:
    """What somebody reads there, white space made one blank."""
    html = (site / page).read_text()
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def missing(text: str, wanted: Iterator[str]) -> list[str]:
    return [each for each in wanted if each not in text]


def test_every_command_is_there(site: Path) -> None:
    commands = list(cli.commands())
    assert len(commands) > 80
    assert (
        missing(text_of(site, "reference/cli.html"), (f"oc {' '.join(names)}" for names, _ in commands)) == []
    )


@pytest.mark.parametrize(("page", "api"), [("http-sandboxes", "/api"), ("http-sessions", "/v3")])
def test_every_route_is_there(site: Path, page: str, api: str) -> None:
    nothing = http.NOTHING
    app = create_app(nothing) if api == "/api" else session_api(nothing)
    routes = [f"{method} {path}" for method, path, _ in http.operations(app.openapi())]
    assert len(routes) > 40
    assert missing(text_of(site, f"reference/{page}.html"), iter(routes)) == []


def test_every_error_code_is_there(site: Path) -> None:
    text = text_of(site, "reference/errors.html")
    codes = {str(each.code) for each in vars(errors).values() if hasattr(each, "code")}
    assert len(codes) > 30
    assert missing(text, iter(codes)) == []


def test_every_event_is_there(site: Path) -> None:
    kinds = [*events.kinds(), *events.kinds(lifecycle_events)]
    assert len(kinds) > 20
    assert missing(text_of(site, "reference/events.html"), (each.type for each in kinds)) == []


def test_every_public_name_of_the_sdk_is_there(site: Path) -> None:
    import opencomputer
    from opencomputer import durable

    names = [name for module in (opencomputer, durable) for name, _ in python.names(module)]
    assert len(names) > 60
    assert missing(text_of(site, "reference/python.html"), iter(names)) == []


def test_every_setting_is_there_with_what_it_may_be(site: Path) -> None:
    text = text_of(site, "guides/settings.html")
    assert missing(text, (settings.PREFIX + name for name in settings.variables())) == []
    assert "HOST:PORT, for instance 127.0.0.1:8080" in text


def test_long_names_in_tables_are_broken_between_their_words_only(site: Path) -> None:
    html = (site / "guides/settings.html").read_text()
    assert "<code>OPENCOMPUTER_<wbr>TRUSTED_<wbr>PROXIES</code>" in html
    assert "<wbr>" not in (site / "quickstart.html").read_text().partition("<table")[0]


def test_a_setting_that_only_the_page_knows_is_an_error() -> None:
    page = (REPOSITORY / "docs/guides/settings.md").read_text()
    with pytest.raises(settings.SettingsDiffer, match="OPENCOMPUTER_NOTHING"):
        settings.completed(page.replace("`OPENCOMPUTER_LISTEN`", "`OPENCOMPUTER_NOTHING`"))


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetched = re.compile(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")
    found = {
        (page.name, address) for page in site.rglob("*.html") for address in fetched.findall(page.read_text())
    }
    assert found == set()
    assert not re.search(r"@import|url\((?:https?:)?//", "".join(f.read_text() for f in site.rglob("*.css")))
