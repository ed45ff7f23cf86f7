"""What requests mean to the engines: their configurations, and which requests are refused."""

from __future__ import annotations

import json
import tomllib
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from opencomputer.inside.brains.claude import expected_turn
from opencomputer.inside.brains.claude_options import engine_options
from opencomputer.inside.brains.codex import configuration
from opencomputer.inside.brains.requests import BadRequest, TurnRequest, parse_turn
from opencomputer.inside.brains.spares import SpareEngine

TURN = TurnRequest(
    turn_id="trn_1",
    input=("hello",),
    model="openai/gpt/5",
    system_prompt='"""\\ ü',
    mcp_endpoint="http://169.254.169.254/mcp",
    state_dir="/state",
    endpoint={"base_url": "http://169.254.169.254/v1", "auth_env": "A_KEY"},
)


def body(**changes: Any) -> dict[str, Any]:
    config = {
        "model": "anthropic/x",
        "system_prompt": "",
        "mcp_endpoint": "http://a/mcp",
        "state_dir": "/state",
    }
    top = {"contract_version": "1", "turn_id": "t", "input": [{"role": "user", "content": "x"}]}
    return {**top, "config": {**config, **changes.pop("config", {})}, **changes}


def test_codex_reads_what_it_is_given() -> None:
    read = tomllib.loads(configuration(TURN, "http://127.0.0.1:1/mcp", "/state/ü.md"))
    assert read["model"] == "gpt/5"
    assert read["model_instructions_file"] == "/state/ü.md"
    assert read["model_providers"]["oc"]["base_url"] == "http://169.254.169.254/v1"
    assert read["model_providers"]["oc"]["env_key"] == "A_KEY"
    assert read["mcp_servers"]["oc"]["url"] == "http://127.0.0.1:1/mcp"
    assert set(read["features"].values()) == {False}


def test_claude_has_the_sessions_tools_and_no_others(tmp_path: Path) -> None:
    options = engine_options(TURN, "http://127.0.0.1:1/mcp")
    assert (options["tools"], options["allowed_tools"]) == ([], ["mcp__oc"])
    assert options["env"]["ANTHROPIC_BASE_URL"] == "http://169.254.169.254/v1"
    assert options["env"]["A_KEY"] == "provided-by-the-node"
    assert options["env"]["CLAUDE_CONFIG_DIR"] == "/state/claude"


def test_an_engine_is_started_beforehand_only_where_its_model_is_known() -> None:
    assert expected_turn({}) is None
    turn = expected_turn({"ANTHROPIC_BASE_URL": "http://a"})
    assert turn is not None
    asked = replace(turn, model="anthropic/other", endpoint={"base_url": "http://a"}, system_prompt="x")
    spare = SpareEngine(engine_options(turn, "http://b"), cast("Any", None), None, deque())
    assert spare.serves(engine_options(asked, "http://b"))
    assert not spare.serves(engine_options(replace(asked, max_turns=3), "http://b"))
    assert not spare.serves(engine_options(replace(asked, endpoint={"base_url": "http://c"}), "http://b"))


def test_a_request_is_read() -> None:
    turn = parse_turn(json.dumps(body()).encode())
    assert (turn.input, turn.max_turns, turn.resume, turn.model_name) == (("x",), 24, False, "x")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"contract_version": "2"}, "contract_version"),
        ({"turn_id": ""}, "turn_id"),
        ({"input": []}, "input"),
        ({"input": [{"role": "assistant", "content": "x"}]}, r"input\[0\]"),
        ({"input": [{"role": "user", "content": 1}]}, r"input\[0\].content"),
        ({"config": {"model": 1}}, "model"),
        ({"config": {"mcp_endpoint": "ftp://x"}}, "mcp_endpoint"),
        ({"config": {"state_dir": "state"}}, "state_dir"),
        ({"config": {"resume": 1}}, "resume"),
        ({"config": {"max_turns": 0}}, "max_turns"),
        ({"config": {"endpoint_profile": {"base_url": 1}}}, "endpoint_profile.base_url"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_the_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_turn(json.dumps(body(**changes)).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_turn(text)
