"""What a brain is asked: the body of `POST /turn`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]

CONTRACT_VERSION = "1"
MAX_TURNS = 24
MAX_INPUTS = 10_000


class BadRequest(Exception):
    """The request cannot be understood; the message says which field is wrong and what it must be."""


@dataclass(frozen=True)
class TurnRequest:
    """One request. `input` is only what is new, oldest first.

    `model` is as configured, `provider/name`. `endpoint` says how the model is reached, without a secret.
    """

    turn_id: str
    input: tuple[str, ...]
    model: str
    system_prompt: str
    mcp_endpoint: str
    state_dir: str
    resume: bool = False
    max_turns: int = MAX_TURNS
    endpoint: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def model_name(self) -> str:
        """The model as its provider calls it."""
        return self.model.partition("/")[2] or self.model


def parse_turn(body: bytes) -> TurnRequest:
    """Read the body of a request. Raises BadRequest."""
    try:
        top = cast("Json", json.loads(body))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error
    if not isinstance(top, dict):
        raise BadRequest("the body must be an object")
    if top.get("contract_version") != CONTRACT_VERSION:
        raise BadRequest(f"contract_version must be {CONTRACT_VERSION!r}")
    config = top.get("config")
    if not isinstance(config, dict):
        raise BadRequest("config must be an object")
    return TurnRequest(
        turn_id=_text(top, "turn_id"),
        input=_inputs(top.get("input")),
        model=_text(config, "model"),
        system_prompt=_text(config, "system_prompt", empty=True),
        mcp_endpoint=_url(config),
        state_dir=_folder(config),
        resume=_flag(config, "resume"),
        max_turns=_count(config, "max_turns"),
        endpoint=_endpoint(config.get("endpoint_profile")),
    )


def _inputs(value: Json) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_INPUTS:
        raise BadRequest("input must be an array with at least one message")
    return tuple(_input(each, f"input[{number}]") for number, each in enumerate(value))


def _input(value: Json, where: str) -> str:
    if not isinstance(value, dict) or value.get("role") != "user":
        raise BadRequest(f"{where} must be an object with role 'user'")
    content = value.get("content")
    if not isinstance(content, str):
        raise BadRequest(f"{where}.content must be a string")
    return content


def _text(value: Mapping[str, Json], name: str, *, empty: bool = False) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not (text or empty):
        raise BadRequest(f"{name} must be a string" + ("" if empty else " that is not empty"))
    return text


def _url(config: Mapping[str, Json]) -> str:
    url = _text(config, "mcp_endpoint")
    if not url.startswith("http://"):
        raise BadRequest("mcp_endpoint must be an http:// URL")
    return url


def _folder(config: Mapping[str, Json]) -> str:
    folder = _text(config, "state_dir")
    if not os.path.isabs(folder):
        raise BadRequest("state_dir must be an absolute path")
    return folder


def _flag(config: Mapping[str, Json], name: str) -> bool:
    value = config.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false")
    return value


def _count(config: Mapping[str, Json], name: str) -> int:
    value = config.get(name, MAX_TURNS)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequest(f"{name} must be a positive whole number")
    return value


def _endpoint(value: Json) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest("endpoint_profile must be an object")
    for name in ("base_url", "auth_env"):
        if not isinstance(value.get(name, ""), str):
            raise BadRequest(f"endpoint_profile.{name} must be a string")
    return value
