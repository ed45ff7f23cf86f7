"""The format of scripts, and which answer they give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opencomputer.server.models.conversation import Conversation
from opencomputer.server.models.script import (
    Failure,
    Hang,
    ScriptError,
    Text,
    ToolUse,
    Wait,
    load_script,
    parse_script,
)


def said(*prompts: str, replies: int = 0, result: str = "") -> Conversation:
    return Conversation(prompts, replies, result, "/work", offers_tools=True)


def script_of(**rule: Any) -> dict[str, Any]:
    return {"rules": [{"when": {"contains": "go"}, "replies": [[{"text": "x"}]], **rule}]}


def test_every_kind_of_step_is_understood() -> None:
    """In the order in which they are written."""
    steps = [
        {"text": "hi", "pace_seconds": 0.5},
        {"tool": "Bash", "input": {"command": "ls"}},
        {"tool": "Stop"},
        {"wait_seconds": 2},
        {"error": {"status": 529, "type": "overloaded_error", "message": "busy"}},
        {"hang": True},
    ]
    script = parse_script({"otherwise": [steps]})
    assert script.reply_to(said("x")) == (
        Text("hi", 0.5),
        ToolUse("Bash", {"command": "ls"}),
        ToolUse("Stop", {}),
        Wait(2),
        Failure(529, "overloaded_error", "busy"),
        Hang(),
    )


def test_the_first_rule_that_fits_answers() -> None:
    """All parts must be contained, in any case; a pattern may be anywhere."""
    script = parse_script(
        {
            "rules": [
                {"when": {"contains": ["fizz", "TEST"]}, "replies": [[{"text": "one"}]]},
                {"when": {"matches": "^fizz"}, "replies": [[{"text": "two"}]]},
                {"when": {"contains": "buzz", "matches": "x$"}, "replies": [[{"text": "three"}]]},
            ],
            "otherwise": [[{"text": "four"}]],
        }
    )
    answers = [script.reply_to(said(prompt)) for prompt in ("a Fizz test", "FIZZ", "buzz x", "buzz")]
    assert answers == [(Text("one"),), (Text("two"),), (Text("three"),), (Text("four"),)]


def test_replies_follow_one_another_and_end_with_done() -> None:
    """Unless the rule begins again."""
    replies = [[{"text": "a"}], [{"text": "b"}]]
    once, again = (
        parse_script(script_of(replies=replies)),
        parse_script(script_of(replies=replies, repeat=True)),
    )
    assert [once.reply_to(said("go", replies=n)) for n in range(3)] == [
        (Text("a"),),
        (Text("b"),),
        (Text("Done."),),
    ]
    assert again.reply_to(said("go", replies=2)) == (Text("a"),)


def test_placeholders_are_filled_in_everywhere() -> None:
    """In text, tool names and, however deep, tool inputs. Unknown ones stay."""
    step = {"tool": "{{1}}", "input": {"a": ["{{cwd}}/{{2}}", 7], "b": {"c": "{{result}} {{unknown}}"}}}
    rule = {"when": {"matches": "use (\\w+) on (\\w+)"}, "replies": [[{"text": "{{prompts}}"}, step]]}
    text, tool = parse_script({"rules": [rule]}).reply_to(said("first", "use Edit on it", result="42"))
    assert text == Text("1. first\n2. use Edit on it")
    assert tool == ToolUse("Edit", {"a": ["/work/it", 7], "b": {"c": "42 {{unknown}}"}})


def test_what_fills_a_placeholder_is_not_filled_in_again() -> None:
    """A prompt is data."""
    script = parse_script({"otherwise": [[{"text": "{{prompt}}"}]]})
    assert script.reply_to(said("{{result}}", result="secret")) == (Text("{{result}}"),)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "script: must be an object"),
        ({"rule": []}, "script: unknown field 'rule'"),
        ({"rules": {}}, "rules: must be an array"),
        (script_of(when={}), "rules[0].when: needs 'contains' or 'matches'"),
        (script_of(when={"contains": 7}), "rules[0].when.contains: must be an array"),
        (script_of(when={"matches": "("}), "rules[0].when.matches: not a regular expression"),
        (script_of(replies=[]), "rules[0].replies: must not be empty"),
        (script_of(replies=[{}]), "rules[0].replies[0]: must be an array"),
        (script_of(replies=[[{}]]), "rules[0].replies[0][0]: a step is one of"),
        (script_of(replies=[[{"text": "x", "tool": "y"}]]), "rules[0].replies[0][0]: a step is one of"),
        (script_of(replies=[[{"txt": "x"}]]), "rules[0].replies[0][0]: unknown field 'txt'"),
        (
            script_of(replies=[[{"wait_seconds": -1}]]),
            "rules[0].replies[0][0].wait_seconds: must be a number",
        ),
        (script_of(replies=[[{"error": {"status": 200}}]]), "rules[0].replies[0][0].error.status: must be"),
        (
            script_of(replies=[[{"tool": "x", "input": []}]]),
            "rules[0].replies[0][0].input: must be an object",
        ),
        (script_of(repeat="yes"), "rules[0].repeat: must be true or false"),
    ],
)
def test_a_mistake_in_a_script_is_named_with_its_place(document: Any, complaint: str) -> None:
    """Whoever wrote it finds it at once."""
    with pytest.raises(ScriptError) as error:
        parse_script(document)
    assert str(error.value).startswith(complaint)


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    """And a file that cannot be read is a mistake like any other."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"otherwise": [[{"text": "from a file"}]]}))
    assert load_script(path).reply_to(said("x")) == (Text("from a file"),)
    path.write_text("{")
    with pytest.raises(ScriptError, match=r"script\.json"):
        load_script(path)
    with pytest.raises(ScriptError, match=r"missing\.json"):
        load_script(tmp_path / "missing.json")


def test_the_script_that_comes_along_carries_the_demonstration() -> None:
    """Two files, the tests' run, and a last word."""
    script = load_script(None)
    prompt = "Write fizzbuzz.py with tests and run them"
    replies = [script.reply_to(said(prompt, replies=n, result="OK")) for n in range(4)]
    tools = [step for reply in replies for step in reply if isinstance(step, ToolUse)]
    assert [tool.name for tool in tools] == ["Write", "Write", "Bash"]
    assert [tool.input.get("file_path") for tool in tools] == [
        "/work/fizzbuzz.py",
        "/work/test_fizzbuzz.py",
        None,
    ]
    (last,) = replies[3]
    assert isinstance(last, Text)
    assert last.text.endswith("OK")


def test_the_program_of_the_demonstration_passes_its_tests(tmp_path: Path) -> None:
    """What the script writes is real."""
    script = load_script(None)
    scope: dict[str, Any] = {"__name__": "fizzbuzz"}
    step = script.reply_to(said("fizzbuzz with tests"))[1]
    assert isinstance(step, ToolUse)
    exec(str(step.input["content"]), scope)
    assert [scope["fizzbuzz"](n) for n in (1, 3, 5, 15)] == ["1", "Fizz", "Buzz", "FizzBuzz"]


def test_the_script_that_comes_along_answers_everything() -> None:
    """A prompt it does not know gets an explanation of what it is."""
    (step,) = load_script(None).reply_to(said("good morning"))
    assert isinstance(step, Text)
    assert "good morning" in step.text
    (tool,) = load_script(None).reply_to(said("please run `uname -a`"))
    assert tool == ToolUse("Bash", {"command": "uname -a", "description": "Run the command"})
