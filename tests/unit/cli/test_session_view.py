"""Events of a durable session as a person reads them."""

from __future__ import annotations

import pytest

from opencomputer.cli.session_view import SessionView, log_line
from opencomputer.sdk.durable.events import SessionEvent, read_event

AT = "2026-01-02T03:04:05.000Z"


def event(seq: int, type: str, *, level: str = "user", ts: str = AT, **body: object) -> SessionEvent:
    sent = {"id": f"evt_{seq}", "seq": seq, "type": type, "level": level, "ts": ts, "turn_id": "trn_1"}
    return read_event({**sent, "body": body})


def shown(*events: SessionEvent) -> list[str]:
    view = SessionView()
    return [line.content for each in events for line in view.lines_of(each)]


def test_a_turn_is_shown_as_a_whole() -> None:
    usage = {"tokens": 1234, "total_cost_usd": 0.0123}
    assert shown(
        event(1, "user.message", text="Write it.\nThen test it."),
        event(2, "turn.started", level="progress", input_from_seq=1, input_to_seq=1),
        event(3, "agent.message", level="progress", text="I begin."),
        event(4, "tool.call", level="internal", tool="bash", args_summary="pytest -q"),
        event(5, "exec.completed", level="internal", command="pytest -q", exit_code=1, summary="1 failed"),
        event(6, "tool.result", level="internal", tool="write", summary="12 bytes"),
        event(7, "preview.url", url="https://x.test"),
        event(8, "agent.message", text="Done.\nIt works."),
        event(9, "turn.completed", ts="2026-01-02T03:04:17.300Z", yield_reason="completed", usage=usage),
    ) == [
        "› Write it.",
        "› Then test it.",
        "",
        "── turn 1 ── trn_1 ─────────────────────────────",
        "I begin.",
        "● bash  pytest -q",
        "  1 failed",
        "  exit code 1",
        "  12 bytes",
        "→ https://x.test",
        "Done.",
        "It works.",
        "✓ done · 12.3 s · 1234 tokens · $0.0123",
    ]


def test_an_answer_that_was_shown_as_progress_is_not_shown_again() -> None:
    assert shown(
        event(1, "agent.message", level="progress", text="Done."),
        event(2, "agent.result", level="internal", total_cost_usd=0.1),
        event(3, "agent.message", text="Done."),
        event(4, "agent.message", text="Done."),
    ) == ["Done.", "Done."]
    assert shown(
        event(1, "agent.message", level="progress", text="Which?"),
        event(2, "agent.message", text="Which?", awaiting_input=True),
    ) == ["Which?", "Which?"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("needs_input", "? waits for an answer"),
        ("canceled", "■ canceled"),
        ("error", "✗ failed: it is no key"),
        ("deadline_exceeded", "✗ out of time: it is no key"),
        ("something_new", "■ something_new: it is no key"),
    ],
)
def test_every_end_of_a_turn_has_its_words(reason: str, words: str) -> None:
    error = {"message": "it is no key"} if ":" in words else None
    assert shown(event(1, "turn.completed", yield_reason=reason, error=error)) == [words]


def test_why_a_turn_failed_is_told_once() -> None:
    gone, lost = {"message": "The key is gone."}, {"message": "The machine is lost."}
    assert shown(
        event(1, "error.model", code="credential_missing", message="The key is gone."),
        event(2, "turn.completed", yield_reason="error", error=gone),
        event(3, "error.runtime", message="The tool broke."),
        event(4, "turn.completed", yield_reason="error", error=lost),
    ) == [
        "Error: The key is gone.",
        "✗ failed",
        "Error: The tool broke.",
        "✗ failed: The machine is lost.",
    ]


def test_what_is_not_known_is_shown_in_one_line() -> None:
    assert shown(event(1, "sandbox.woken", sandbox="hands"), event(2, "news", text="hello\x1b[31m")) == [
        "· sandbox.woken  hands",
        "· news  hello [31m",
    ]


def test_an_error_is_told_and_long_output_is_cut() -> None:
    output = "\n".join(f"line {number}" for number in range(9))
    lines = shown(
        event(1, "error.model", code="credential_missing", message="The key is gone."),
        event(2, "exec.completed", command="x", exit_code=0, summary=output),
    )
    assert lines[0] == "Error: The key is gone."
    assert lines[-2:] == ["  line 5", "  … 3 more lines"]


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (event(1, "user.message", text="a\nb"), "[1] user.message  a b"),
        (event(2, "error.model", code="x", message="gone"), "[2] error.model  gone"),
        (event(3, "tool.call", tool="bash", args_summary="ls"), "[3] tool.call  bash"),
        (event(4, "turn.completed", yield_reason="completed"), "[4] turn.completed  completed"),
        (event(5, "turn.started"), "[5] turn.started"),
    ],
)
def test_the_log_has_one_line_for_each_event(one: SessionEvent, line: str) -> None:
    assert log_line(one) == line
