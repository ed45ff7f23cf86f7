"""Several servers side by side in one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencomputer.cli import config, profiles
from opencomputer.cli.config import Server, Values
from opencomputer.cli.failures import CommandError
from tests.unit.cli.conftest import Oc

FILE: Values = {
    "api_url": "http://mine",
    "api_key": "osb_mine",
    "profiles": {"lab": {"api_url": "http://lab", "api_key": "osb_lab"}, "empty": {"api_url": "http://e"}},
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    config.save(tmp_path / "oc" / "config.json", FILE)
    missing = str(tmp_path / "local-node.json")
    return {"OC_CONFIG": str(tmp_path / "oc" / "config.json"), "OPENCOMPUTER_LOCAL_NODE_FILE": missing}


def test_a_run_uses_the_profile_that_is_named_nearest(environment: dict[str, str]) -> None:
    def applies(flag: str = "") -> str:
        return config.resolve(Server("", "", profile=flag), environment).api_url

    assert applies() == "http://mine"
    Path(environment["OC_CONFIG"]).write_text(json.dumps(FILE | {"profile": "empty"}))
    assert applies() == "http://e"
    environment["OC_PROFILE"] = "lab"
    assert applies() == "http://lab"
    assert applies("default") == "http://mine"


def test_no_profile_borrows_from_another(environment: dict[str, str]) -> None:
    found = config.resolve(Server("", "", profile="empty"), environment)
    assert (found.api_url, found.api_key, found.sessions_url) == ("http://e", "", "http://e")


def test_a_profile_on_the_command_line_goes_before_the_environment_which_is_about_another_server(
    environment: dict[str, str],
) -> None:
    environment |= {"OPENCOMPUTER_API_URL": "http://environment", "OPENCOMPUTER_API_KEY": "osb_environment"}
    found = config.resolve(Server("", "", profile="lab"), environment)
    assert (found.api_url, found.api_key, found.key_source) == ("http://lab", "osb_lab", "file")
    found = config.resolve(Server("", "osb_flag", profile="lab"), environment)
    assert (found.api_key, found.key_source) == ("osb_flag", "flag")
    environment["OC_PROFILE"] = "lab"
    found = config.resolve(Server("", ""), environment)
    assert (found.api_url, found.key_source) == ("http://environment", "environment")


@pytest.mark.parametrize("name", ["nowhere", "../x", "a b", "-x", "x" * 65])
def test_a_profile_that_is_none_is_an_error(environment: dict[str, str], name: str) -> None:
    with pytest.raises(CommandError, match="profile"):
        config.resolve(Server("", "", profile=name), environment)


@pytest.mark.parametrize("broken", [{"profiles": 7}, {"profiles": {"lab": []}}, {"profile": 3}])
def test_a_file_that_is_broken_there_counts_as_without(broken: Values) -> None:
    assert profiles.values_of(broken, "lab") == {}
    assert profiles.named("", {}, broken) == "default"


def test_writing_one_leaves_the_others_and_what_is_unknown() -> None:
    known: Values = FILE | {"later": True}
    changed = profiles.with_values(known, "default", {"api_url": "http://new"})
    assert changed == {"api_url": "http://new", "profiles": FILE["profiles"], "later": True}
    gone = profiles.with_values(profiles.with_values(known, "lab", {}), "empty", {})
    assert gone == {"api_url": "http://mine", "api_key": "osb_mine", "later": True}


def test_profiles_are_set_listed_used_and_removed(oc: Oc, clean_environment: Path) -> None:
    assert oc("config", "set", "api-url", "http://lab", "--profile", "lab").exit_code == 0
    assert oc("config", "set", "api-key", "osb_0123456789", "--profile", "lab").exit_code == 0
    assert oc("config", "set", "api-url", "http://mine").exit_code == 0
    assert oc("config", "profiles").stdout == (
        "NAME     USED  API URL      API KEY    LOGIN\n"
        "default  *     http://mine  -          no\n"
        "lab            http://lab   osb_…6789  no\n"
    )
    assert oc("config", "use", "lab").exit_code == 0
    assert oc("config", "profiles", "--quiet").stdout == "default\nlab\n"
    assert [each["used"] for each in json.loads(oc("config", "profiles", "--json").stdout)] == [False, True]
    assert oc("config", "remove", "lab").exit_code == 0
    assert config.read_json(clean_environment) == {"api_url": "http://mine"}
    assert oc("config", "use", "lab").stderr == (
        "Error: there is no profile 'lab'\nHint: oc login --profile lab\n"
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [("api-url", "nonsense"), ("api-url", "ftp://x"), ("sessions-api-url", "http://"), ("api-key", " ")],
)
def test_what_cannot_be_is_not_saved(oc: Oc, clean_environment: Path, setting: str, value: str) -> None:
    assert oc("config", "set", setting, value).exit_code == 1
    assert not clean_environment.exists()
