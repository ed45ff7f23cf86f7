"""The programs in docs/guides/durable-sessions.md do what the guide says, one after the other.

The node's agents follow scripts instead of a model: whatever they are told, they ask something in their
first turn and repeat what is said to them in the next.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main

from opencomputer.cli.main import application
from tests.support.server import ServerProcess
from tests.unit.sdk.durable.test_webhooks import signed

pytestmark = pytest.mark.anyio

GUIDE = Path(__file__).parents[2] / "docs/guides/durable-sessions.md"
SECRET = "whsec_c2VjcmV0IGtleSBvZiBvdXJz"
# No model is at hand, and no name can be resolved.
_HERE = {
    'model="anthropic/claude-sonnet-5"': 'model="scripted/ask-then-echo", runtime="scripted"',
    "https://example.com": "https://93.184.215.14",
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


async def run(source: str, names: dict[str, Any]) -> None:
    for there, here in _HERE.items():
        source = source.replace(there, here)
    result = eval(compile(source, str(GUIDE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(result):
        await result


@pytest.mark.machines
@pytest.mark.timeout(300)
async def test_every_program_does_what_the_guide_says(
    shared_server: ServerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENCOMPUTER_API_URL", shared_server.url)
    monkeypatch.setenv("OPENCOMPUTER_API_KEY", shared_server.api_key)
    names: dict[str, Any] = {}
    for block in blocks("python"):
        await run(block, names)
    printed = capsys.readouterr().out
    for expected in (
        "turn ended: needs_input",
        "completed Use version 2 of the format.",
        "user.message Make the tests pass.",
        "Something else: add error messages.",
    ):
        assert expected in printed
    assert printed.endswith("hello\n")
    body = json.dumps({"type": "turn.completed", "sessionId": "ses_1", "metadata": {"ticket": 4711}}).encode()
    assert names["receive"](body, {}).startswith("refused")
    headers = signed(body, SECRET, at=int(time.time()))
    assert names["receive"](body, headers) == "turn.completed of ses_1, ticket 4711"


def test_its_folder_is_one_that_can_be_deployed() -> None:
    (manifest,) = blocks("toml")
    assert set(tomllib.loads(manifest)) == {"name", "model"}


def test_its_commands_are_ours() -> None:
    root: Any = typer.main.get_command(application())
    for line in "".join(blocks("sh")).splitlines():
        _, noun, verb, *_ = line.split()
        assert verb in root.commands[noun].commands, line
