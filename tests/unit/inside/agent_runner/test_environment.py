"""What the engine finds in its environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opencomputer.inside.agent_runner import environment
from opencomputer.inside.agent_runner.environment import engine_environment, forget_own_path, has_credential

OWN_FOLDER = str(Path(environment.__file__).resolve().parent.parent)


@pytest.mark.parametrize("name", [*environment.CREDENTIALS, *environment.CLOUD_PROVIDERS])
def test_any_credential_the_engine_understands_is_enough(name: str) -> None:
    """An API key, a token, or a cloud's own way."""
    assert has_credential({name: "x"})


def test_an_empty_credential_is_none() -> None:
    """A variable that is set to nothing does not count."""
    assert not has_credential({"ANTHROPIC_API_KEY": "", "PATH": "/bin"})


def test_the_engine_is_kept_from_calling_out_and_updating_itself() -> None:
    """It is where it was put, and talks to the model only."""
    assert engine_environment({}, 1000) == {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def test_root_is_told_that_it_is_in_a_sandbox() -> None:
    """The engine refuses to skip permissions as root otherwise."""
    assert engine_environment({}, 0)["IS_SANDBOX"] == "1"


def test_what_the_user_has_set_stays() -> None:
    """Even if it is empty."""
    user = {"DISABLE_AUTOUPDATER": "0", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "", "IS_SANDBOX": "no"}
    assert engine_environment(user, 0) == {}


def test_the_runners_folder_is_taken_off_the_search_path() -> None:
    """The agent's programs do not find our packages; what the user put there, they do."""
    variables = {"PYTHONPATH": os.pathsep.join([OWN_FOLDER, "/user/lib"])}
    forget_own_path(variables)
    assert variables == {"PYTHONPATH": "/user/lib"}
    only = {"PYTHONPATH": OWN_FOLDER}
    forget_own_path(only)
    assert only == {}
