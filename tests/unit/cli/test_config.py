"""Which server and key apply, and the file that keeps them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from opencomputer.cli import config
from opencomputer.cli.config import Server
from tests.unit.cli.conftest import Oc

NOTHING = Server("", "")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "OC_CONFIG": str(tmp_path / "config.json"),
        "OPENCOMPUTER_LOCAL_NODE_FILE": str(tmp_path / "local-node.json"),
    }


def write(environment: dict[str, str], variable: str, values: dict[str, object]) -> None:
    Path(environment[variable]).write_text(json.dumps(values))


def test_each_value_is_taken_from_the_strongest_source(environment: dict[str, str]) -> None:
    assert config.resolve(NOTHING, environment) == Server("https://app.opencomputer.dev", "")
    write(environment, "OC_CONFIG", {"api_url": "http://file", "api_key": "file"})
    assert config.resolve(NOTHING, environment) == Server("http://file", "file")
    environment["OPENCOMPUTER_API_KEY"] = "environment"
    assert config.resolve(NOTHING, environment) == Server("http://file", "environment")
    environment["OPENCOMPUTER_API_URL"] = "http://environment"
    assert config.resolve(NOTHING, environment) == Server("http://environment", "environment")
    assert config.resolve(Server("http://flag", ""), environment) == Server("http://flag", "environment")
    assert config.resolve(Server("http://flag", "flag"), environment) == Server("http://flag", "flag")


def test_a_node_on_this_machine_is_used_when_nothing_names_a_server(environment: dict[str, str]) -> None:
    write(environment, "OPENCOMPUTER_LOCAL_NODE_FILE", {"apiUrl": "http://127.0.0.1:8080", "apiKey": "local"})
    assert config.resolve(NOTHING, environment) == Server("http://127.0.0.1:8080", "local")
    assert config.resolve(Server("", "own"), environment) == Server("http://127.0.0.1:8080", "own")
    assert config.resolve(Server("http://127.0.0.1:8080/api/", ""), environment).api_key == "local"


def test_the_key_of_the_local_node_goes_to_no_other_server(environment: dict[str, str]) -> None:
    write(environment, "OPENCOMPUTER_LOCAL_NODE_FILE", {"apiUrl": "http://127.0.0.1:8080", "apiKey": "local"})
    assert config.resolve(Server("http://elsewhere", ""), environment) == Server("http://elsewhere", "")


def test_durable_sessions_are_where_the_rest_is_unless_something_says_otherwise(
    environment: dict[str, str],
) -> None:
    def where(flags: Server = NOTHING) -> str:
        return config.resolve(flags, environment).sessions_url

    assert where() == "https://api.opencomputer.dev"
    write(environment, "OPENCOMPUTER_LOCAL_NODE_FILE", {"apiUrl": "http://127.0.0.1:8080", "apiKey": "local"})
    assert where() == "http://127.0.0.1:8080"
    assert where(Server("http://flag", "key")) == "http://flag"
    write(environment, "OC_CONFIG", {"sessions_api_url": "http://file"})
    assert where(Server("http://flag", "key")) == "http://file"
    environment["SESSIONS_API_URL"] = "http://environment"
    assert where(Server("http://flag", "key", "http://sessions")) == "http://sessions"
    assert (where(), config.resolve(NOTHING, environment).api_key) == ("http://environment", "")


@pytest.mark.parametrize("content", ["", "{", "[1]", '"x"', "\x00"])
def test_a_broken_file_counts_as_empty(environment: dict[str, str], content: str) -> None:
    Path(environment["OC_CONFIG"]).write_text(content)
    assert config.resolve(NOTHING, environment) == Server("https://app.opencomputer.dev", "")


def test_the_file_is_for_its_owner_alone_whatever_it_was_before(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".oc" / "config.json"
    path.parent.mkdir(parents=True, mode=0o755)
    path.write_text("{}")
    path.chmod(0o644)
    config.save(path, {"api_key": "secret", "kept": [1]})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text() == '{\n  "api_key": "secret",\n  "kept": [\n    1\n  ]\n}\n'


def test_a_failed_save_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".oc" / "config.json"
    config.save(path, {"old": True})

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        config.save(path, {"new": True})
    assert json.loads(path.read_text()) == {"old": True}
    assert [entry.name for entry in path.parent.iterdir()] == ["config.json"]


@pytest.mark.parametrize(("key", "shown"), [("osb_0123456789", "osb_…6789"), ("short", "…"), ("", "-")])
def test_a_key_is_shown_by_its_ends_only(key: str, shown: str) -> None:
    assert config.abbreviated(key) == shown


def test_set_keeps_other_values_and_forgets_a_login(oc: Oc, clean_environment: Path) -> None:
    config.save(clean_environment, {"login": {"name": "x"}, "sessions_api_url": "http://s"})
    assert oc("config", "set", "api-key", "osb_new").exit_code == 0
    assert config.read_json(clean_environment) == {"sessions_api_url": "http://s", "api_key": "osb_new"}


def test_a_value_that_the_environment_hides_is_kept_with_a_warning(
    oc: Oc, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = oc("config", "set", "api-key", "osb_new").stderr
    assert told == "Warning: OPENCOMPUTER_API_KEY is set here, and goes before what is saved\n"
    monkeypatch.delenv("OPENCOMPUTER_API_KEY")
    assert oc("config", "set", "api-key", "osb_new").stderr == ""


def test_show_tells_what_applies(oc: Oc, clean_environment: Path) -> None:
    outcome = oc("config", "show", "--api-url", "http://flag", "--api-key", "osb_0123456789")
    assert outcome.stdout == (
        "Profile:      default\n"
        "API URL:      http://flag\n"
        "Sessions URL: http://flag\n"
        "API key:      osb_…6789\n"
        "Key from:     flag\n"
        f"File:         {clean_environment}\n"
    )


def test_an_unknown_setting_is_refused(oc: Oc) -> None:
    outcome = oc("config", "set", "colour", "blue")
    assert outcome.exit_code == 1
    assert "colour" in outcome.stderr


def test_a_key_that_no_request_can_carry_is_not_kept(oc: Oc, clean_environment: Path) -> None:
    outcome = oc("config", "set", "api-key", "osb_ü")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "the API key has 'ü' in it" in outcome.stderr
    assert not clean_environment.exists()
