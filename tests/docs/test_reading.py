"""How the tests read the pages."""

from __future__ import annotations

import pytest

from tests.docs.blocks import Block, blocks, expected_after, parsed, prints


def block(source: str, language: str = "sh") -> Block:
    return Block("page.md", 1, language, {}, source)


def test_a_block_has_its_language_options_and_place() -> None:
    text = 'Text.\n\n```sh norun reason="needs a key"\necho hello\n```\n\n```text output\nhello\n```\n'
    first, second = parsed("page.md", text)
    assert (first.place, first.language, first.source) == ("page.md:3", "sh", "echo hello\n")
    assert first.options == {"norun": "", "reason": "needs a key"}
    assert not first.runs
    assert expected_after([first, second], 0) == "hello\n"


def test_an_option_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="norunn"):
        parsed("page.md", "```sh norunn\n```\n")


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("42", "42\n", True),
        ("ready\n…\ndone", "ready\nthis\nand that\ndone  \n", True),
        ("osb_sealed_…", "osb_sealed_0a1b\n", True),
        ("42", "43", False),
        ("a.c", "abc", False),
    ],
)
def test_what_is_printed_is_compared(expected: str, printed: str, same: bool) -> None:
    assert prints(expected, printed) is same


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("pip install x\n", True),
        ("oc backup list x\nsystemctl restart y\n", True),
        ("echo a | sudo tee b\n", True),
        ("oc service install\n", True),
        ("oc exec $SB -- pip install x\n", False),
        ("echo 'make it'\n", False),
    ],
)
def test_a_block_that_would_change_the_machine_is_known(source: str, changes: bool) -> None:
    assert block(source).changes_the_machine is changes


def test_there_are_blocks() -> None:
    assert len([each for each in blocks("README.md") if each.runs]) >= 2
