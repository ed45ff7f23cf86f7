"""What the documentation shows, works."""

from __future__ import annotations

import json
import re
from pathlib import Path

from opencomputer.server.models.conversation import Conversation
from opencomputer.server.models.script import ToolUse, parse_script

PAGE = Path(__file__).parents[4] / "docs" / "concepts" / "model-gateway.md"


def test_the_script_on_the_page_is_a_script() -> None:
    """It is understood, and does what the page says about it."""
    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = parse_script(json.loads(example))
    asked = Conversation(("what is the sum of 2 and 40?",), 0, "", "/work", offers_tools=True)
    assert script.reply_to(asked) == (ToolUse("Bash", {"command": "echo $((2 + 40))"}),)
