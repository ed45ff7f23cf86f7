"""What the scripted model understands of a request."""

from __future__ import annotations

import time

import pytest

from opencomputer.server.models.conversation import DEFAULT_CWD, read_conversation, text_of
from tests.unit.server.models.asking import messages, tool_result

REMINDER = "<system-reminder>\nRemember this.\n</system-reminder>\n"


def test_the_prompt_is_the_users_own_words() -> None:
    """What the engine puts beside them does not count."""
    content = [{"type": "text", "text": REMINDER}, {"type": "text", "text": f"{REMINDER}do it{REMINDER}"}]
    assert read_conversation(messages(content)).prompt == "do it"


def test_tool_results_continue_an_answer() -> None:
    """The position in the script is the number of replies since the prompt."""
    conversation = read_conversation(
        messages("go", "one", tool_result("r1"), "two", tool_result(f"r2{REMINDER}"))
    )
    assert (conversation.prompt, conversation.replies_given, conversation.result) == ("go", 2, "r2")


def test_a_new_prompt_begins_a_new_answer() -> None:
    """Earlier prompts stay known."""
    conversation = read_conversation(messages("go", "done", "again"))
    assert (conversation.prompts, conversation.replies_given) == (("go", "again"), 0)


def test_an_interrupted_prompt_shares_its_message_with_the_next_one() -> None:
    """One block is one prompt, and the note about the interruption is none."""
    content = [
        *tool_result("rejected"),
        {"type": "text", "text": "[Request interrupted by user for tool use]"},
        {"type": "text", "text": "first"},
        {"type": "text", "text": "second"},
    ]
    assert read_conversation(messages("zero", "calls", content)).prompts == ("zero", "first", "second")


def test_messages_of_the_system_are_not_the_users() -> None:
    """The engine writes some into the conversation."""
    body = messages("go")
    body["messages"].append({"role": "system", "content": "You are now another model."})
    assert read_conversation(body).prompt == "go"


@pytest.mark.parametrize(
    "line",
    [
        " - Primary working directory: /srv/app\n - Platform: linux",
        "Working directory: /srv/app",
        " - Primary working directory: /srv/app (was /home/sandbox)",
    ],
)
def test_the_working_directory_is_the_one_the_engine_names(line: str) -> None:
    """In the system prompt or in a reminder, the latest if there are several."""
    older = "<system-reminder>\nWorking directory: /older\n</system-reminder>"
    assert read_conversation(messages([{"type": "text", "text": older}], system=line)).cwd == "/older"
    assert (
        read_conversation(messages(f"{older}\n{line}\nx", system="Working directory: /oldest")).cwd
        == "/srv/app"
    )


def test_without_a_name_it_is_the_home_directory() -> None:
    """Which every machine has."""
    assert read_conversation(messages("x")).cwd == DEFAULT_CWD


def test_a_side_call_offers_no_tools() -> None:
    """Titles and summaries are asked for without any."""
    assert read_conversation(messages("x")).offers_tools
    assert not read_conversation(messages("x", tools=[])).offers_tools


def test_text_is_found_in_strings_and_in_blocks() -> None:
    """Both are allowed wherever content is."""
    assert text_of("plain") == "plain"
    assert (
        text_of([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]) == "a\nb"
    )


@pytest.mark.parametrize("broken", [None, 7, "x", [7], [None, "x"], [{"role": 1, "content": {"a": 1}}]])
def test_what_is_not_understood_is_not_there(broken: object) -> None:
    """Requests come from inside a machine: nothing about them is certain."""
    conversation = read_conversation(messages("x", messages=broken, system=broken, tools=broken))
    assert (conversation.prompt, conversation.cwd) == ("", DEFAULT_CWD)


def test_a_request_full_of_unclosed_tags_is_read_in_linear_time() -> None:
    """A megabyte of them must not stall the node."""
    started = time.process_time()
    read_conversation(messages("<system-reminder>" * 60_000 + "[Request interrupted by user" * 30_000))
    assert time.process_time() - started < 4
