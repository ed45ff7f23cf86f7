"""The scripts that teach shells to complete `oc`, and what they are told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opencomputer.cli.main import run
from tests.support.fake_node import FakeNode, Rule
from tests.support.fake_node.node import FakeSandbox
from tests.unit.cli.conftest import Oc

Ask = Callable[[str], list[str]]

CHECKS = {
    "bash": ["bash", "-n"],
    "zsh": ["zsh", "-n"],
    "fish": ["fish", "--no-execute"],
    "powershell": [
        "pwsh",
        "-NoProfile",
        "-Command",
        "$e = $null; [void][Management.Automation.Language.Parser]::ParseFile($args[0], [ref]$null, [ref]$e);"
        "exit $e.Count",
    ],
}


@pytest.fixture
def ask(oc: Oc, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Ask what may stand at the end of a line, as the script of bash does."""

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_OC_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([])
        assert ended.value.code == 0
        captured = capfd.readouterr()
        assert captured.err == ""
        return captured.out.split()

    return complete


@pytest.mark.parametrize("shell", CHECKS)
def test_the_script_of_each_shell_is_one(oc: Oc, tmp_path: Path, shell: str) -> None:
    """Where the shell is installed it reads its script; the others' are at least theirs, and call us."""
    outcome = oc("completion", shell)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert f"complete_{shell}" in outcome.stdout
    program, *arguments = CHECKS[shell]
    if shutil.which(program):
        script = tmp_path / "script"
        script.write_text(outcome.stdout)
        subprocess.run([program, *arguments, str(script)], check=True, capture_output=True)


def test_bash_itself_completes_with_it(oc: Oc, tmp_path: Path) -> None:
    (tmp_path / "oc").write_text(f'#!/bin/sh\nexec {sys.executable} -m opencomputer.cli "$@"\n')
    (tmp_path / "oc").chmod(0o755)
    (tmp_path / "script").write_text(oc("completion", "bash").stdout)
    lines = 'source "$1"; COMP_WORDS=(oc secret-); COMP_CWORD=1; _oc_completion oc; echo "${COMPREPLY[@]}"'
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    program = ["bash", "-c", lines, "bash", str(tmp_path / "script")]
    printed = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout == "secret-store\n"


def test_commands_and_options_are_suggested(ask: Ask) -> None:
    assert ask("oc sec") == ["secret-store", "secret"]
    assert "list" in ask("oc checkpoint ")
    assert ask("oc create --templ") == ["--template"]
    assert ask("oc completion z") == ["zsh"]
    assert "list" not in ask("oc l"), "what is hidden is not suggested"


def test_sandboxes_are_suggested_where_one_is_named(ask: Ask, node: FakeNode, inside: FakeSandbox) -> None:
    node.add_sandbox(templateID="python")
    assert set(ask("oc get ")) == {"sb-00000001", "sb-00000002"}
    assert ask("oc checkpoint create sb-00000002") == ["sb-00000002"]
    assert ask("oc get x") == []


def test_a_server_that_does_not_tell_suggests_nothing(ask: Ask, node: FakeNode) -> None:
    node.rules.append(Rule("GET", "/sandboxes", 401, {"error": "no"}))
    assert ask("oc get ") == []
