"""Interactive commands of `oc` as a person uses them: in a real terminal, with what a real node runs.

The screens are kept in tests/golden/terminal. No key is pressed before the screen shows that it is expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import httpx
import pytest

from tests.acceptance.test_login import approve_as_browser
from tests.support.box import Box, new_box
from tests.support.recording import at_the_remote_prompt, check_recording, terminal_of
from tests.support.server import ServerProcess
from tests.support.tmux import Tmux

pytestmark = [pytest.mark.machines, pytest.mark.timeout(300)]

_FULL_SCREEN = r"printf '\033[?1049h\033[2J\033[5;10Hall of the screen'; read x; printf '\033[?1049l'"
_STUBBORN = "trap 'echo not yet' INT; echo begun; while :; do sleep 0.1; done"
_WORK = [{"narrate": "I look."}, {"bash": "echo made > f; cat f"}, {"say": "Done."}]


@pytest.fixture(scope="module")
def box(shared_server: ServerProcess) -> Generator[Box]:
    with new_box(shared_server) as made:
        yield made


@pytest.fixture(scope="module")
def person(box: Box, tmp_path_factory: pytest.TempPathFactory) -> Generator[Tmux]:
    with terminal_of(box, tmp_path_factory.mktemp("tmux")) as terminal:
        yield terminal


@pytest.fixture(autouse=True)
def at_the_prompt(person: Tmux) -> None:
    person.clear()


def found(pattern: str, screen: str) -> str:
    match = re.search(pattern, screen)
    assert match, screen
    return match[1]


# A terminal in a sandbox


def test_a_shell_has_keys_size_and_screen(person: Tmux) -> None:
    person.ask("oc shell $S")
    at_the_remote_prompt(person)
    person.type("sh -c 'echo begun; sleep 600'")
    person.until("\nbegun")
    person.keys("C-c")
    at_the_remote_prompt(person)
    person.type("echo was $?; stty size")
    person.until("\nwas 130\n24 100\n")
    at_the_remote_prompt(person)
    person.press("cho the first letter came last")
    person.until("$ cho the first letter came last")
    person.keys("C-a")
    person.press("e")
    person.until("$ echo the first")
    person.keys("Enter")
    person.until("\nthe first letter came last")
    at_the_remote_prompt(person)
    person.resize(110, 28)
    person.type("clear; until [ \"$(stty size)\" = '28 110' ]; do :; done; stty size")
    person.until(lambda screen: screen.startswith("28 110\n"))
    person.type(_FULL_SCREEN)
    assert "28 110" not in person.until("\n         all of the screen")
    person.keys("Enter")
    person.until("28 110")
    at_the_remote_prompt(person)
    person.resize(100, 24)
    person.type("clear; until [ \"$(stty size)\" = '24 100' ]; do :; done; exit 3")
    assert "ended with 0" in person.until_ended()


def test_a_shell_is_left_and_taken_up(person: Tmux) -> None:
    person.ask("oc shell $S")
    at_the_remote_prompt(person)
    person.type("echo half done")
    person.until("\nhalf done")
    at_the_remote_prompt(person)
    person.press("~.")
    left = person.until_ended()
    check_recording("shell_left", left)
    terminal = found(r"--attach ([0-9a-f]{8})", left)
    person.clear()
    person.ask("oc shell $S --list")
    listed = person.until_ended()
    assert (terminal in listed, "running" in listed) == (True, True)
    person.clear()
    person.ask(f"oc shell $S --attach {terminal}")
    person.until("\nhalf done")
    at_the_remote_prompt(person)
    person.type("echo the rest; exit")
    check_recording("shell_taken_up", person.until_ended())


# Commands


def test_a_command_is_interrupted_then_left_then_followed_again(person: Tmux) -> None:
    person.ask(f'oc exec $S -- sh -c "{_STUBBORN}"')
    person.until("\nbegun")
    person.keys("C-c")
    person.until("not yet\n")
    person.keys("C-c")
    left = person.until_ended()
    check_recording("exec_left", left)
    command = found(r"exec attach sb-[0-9a-f]{8} ([0-9a-f]{8})", left)
    person.clear()
    person.ask(f"oc exec attach $S {command}")
    person.until("begun\nnot yet")
    person.keys("C-c")
    person.until("once more leaves it running.")
    person.keys("C-c")
    person.until_ended()


def test_what_is_typed_reaches_a_command(person: Tmux) -> None:
    person.ask("oc exec $S -- sh -c 'echo name?; read name; echo hello $name; exit 7'")
    person.until("\nname?")
    person.type("Ada")
    check_recording("exec_asks", person.until_ended())


def test_a_log_is_followed(person: Tmux, box: Box) -> None:
    person.ask("oc logs -f $S --grep tests")
    box.run("echo running 12 tests; echo 1 of the tests failed >&2; exit 2")
    person.until("running 12 tests")
    person.until("1 of the tests failed")
    person.keys("C-c")
    check_recording("logs_followed", person.until_ended())


# Agents


def test_an_agent_is_watched_told_more_interrupted_and_left(person: Tmux) -> None:
    person.ask("oc agent run $S 'run `seq 7`' --keep")
    check_recording("agent_run", person.until_ended())
    person.clear()
    person.ask("oc agent ls $S")
    agent = found(r"\n([0-9a-f]{8}) +running", person.until_ended())
    person.clear()
    person.ask(f"oc agent attach $S {agent}")
    person.until("done in")
    person.type("run `tail -f /dev/null`")
    person.until("● Bash  tail -f /dev/null")
    person.keys("C-c")
    person.until("Interrupted.")
    person.keys("C-c")
    check_recording("agent_attached", person.until_ended())


def test_a_session_is_followed_told_more_and_left(person: Tmux, shared_server: ServerProcess) -> None:
    with httpx.Client(base_url=f"{shared_server.url}/v3", headers={"X-API-Key": shared_server.api_key}) as v3:
        agent = {"name": "seen", "model": "scripted/program", "runtime": "scripted", "prompt": "Do it."}
        assert v3.post("/agents", json=agent).status_code == 201
    person.ask(f"oc session create --agent seen --input '{json.dumps(_WORK)}' --follow")
    followed = person.until_ended()
    check_recording("session_followed", followed)
    session = found(r"(ses_[0-9a-f]+)", followed)
    person.clear()
    person.ask(f"oc session attach {session} --level user")
    person.until("✓ done")
    person.type('[{"say": "More."}]')
    person.until(lambda screen: screen.count("✓ done") == 2)
    person.keys("C-c")
    check_recording("session_attached", person.until_ended())
    person.clear()
    person.ask(f"oc logs {session} --no-tail")
    check_recording("session_commands", person.until_ended())


# Questions


def test_a_login_waits_for_its_approval(person: Tmux, shared_server: ServerProcess) -> None:
    person.ask("env -u OPENCOMPUTER_API_KEY oc login --no-browser")
    person.until("Waiting until somebody approves it")
    person.keys("C-c")
    check_recording("login_interrupted", person.until_ended())
    person.clear()
    person.ask("env -u OPENCOMPUTER_API_KEY oc login --no-browser")
    shown = person.until("Waiting until somebody approves it")
    address, code = found(r"Open (\S+)", shown), found(r"the code (\S+)", shown)
    approve_as_browser(address, code, shared_server.api_key)
    check_recording("login", person.until_ended())
    person.clear()
    person.ask("env -u OPENCOMPUTER_API_KEY oc logout")
    assert "the key is revoked" in person.until_ended()


def test_what_cannot_be_undone_is_confirmed(person: Tmux) -> None:
    person.ask("oc agent create doomed --prompt Help. --model scripted/echo --runtime scripted")
    person.until_ended()
    for answer, kept in (("n", "question_answered_no"), ("y", "question_answered_yes")):
        person.clear()
        person.ask("oc agent delete doomed")
        person.until(lambda screen: screen.rstrip().endswith("[y/N]"))
        person.type(answer)
        check_recording(kept, person.until_ended())


def test_a_secret_that_is_typed_is_not_shown(person: Tmux, box: Box) -> None:
    store = box.client.post("/secret-stores", json={"name": "seen"}).json()["id"]
    person.ask(f"oc secret set {store} TOKEN")
    person.until(lambda screen: screen.rstrip().endswith("Value:"))
    person.type("nobody-sees-this")
    seen = person.until_ended()
    assert "nobody" not in seen
    check_recording("secret_asked_for", seen)
