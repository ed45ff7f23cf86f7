"""Runtimes that an operator describes in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencomputer.server.contracts.runtimes import BrainLine
from opencomputer.server.runtimes.custom.runtime import RuntimesError, load_runtimes
from tests.unit.server.runtimes.test_scripted import AGENT

FILE = """
[pi]
provider = "anthropic"
command = ["/opt/pi/brain", "--quiet"]
environment = { LEVEL = "high" }

[own-2]
provider = "openai"
command = ["/opt/own"]
"""


def test_each_table_is_a_runtime(tmp_path: Path) -> None:
    file = tmp_path / "runtimes.toml"
    file.write_text(FILE)
    first, second = load_runtimes(file)
    assert (first.name, first.providers, first.takes_skills) == ("pi", {"anthropic"}, False)
    program = first.program(AGENT, [])
    assert (program.argv, program.environment) == (("/opt/pi/brain", "--quiet"), {"LEVEL": "high"})
    assert second.endpoint("http://gateway") == {
        "mode": "gateway",
        "base_url": "http://gateway/openai/v1",
        "auth_env": "OPENAI_API_KEY",
    }
    assert first.translator().translate(BrainLine("text", {"text": "Hm."})).text == "Hm."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "runtimes.toml"),
        ("[claude]", "claude: a runtime's name"),
        ("[Pi]", "Pi: a runtime's name"),
        ("pi = 1", "pi: must be a table"),
        ("[pi]\nmodel = 1", "pi.model: there is no such field"),
        ("[pi]\nprovider = 'x'", "pi.provider: must be one of anthropic, openai"),
        ("[pi]\nprovider = 'openai'\ncommand = '/x'", "pi.command"),
        ("[pi]\nprovider = 'openai'\ncommand = ['x']", "pi.command"),
        ("[pi]\nprovider = 'openai'\ncommand = ['/x', 1]", "pi.command"),
        ("[pi]\nprovider = 'openai'\ncommand = ['/x']\nenvironment = 1", "pi.environment"),
        ("[pi]\nprovider = 'openai'\ncommand = ['/x']\nenvironment = { A = 1 }", "pi.environment"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "runtimes.toml"
    file.write_text(text)
    with pytest.raises(RuntimesError, match=words):
        load_runtimes(file)


def test_a_file_that_is_not_there_is_a_mistake_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimesError):
        load_runtimes(tmp_path / "none.toml")
