"""What is different where the tests run than where the pages are read, by page."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tests.docs.blocks import REPOSITORY
from tests.docs.page_run import Adaptation
from tests.unit.sdk.durable.test_webhooks import signed

_MODEL = 'model="anthropic/claude-sonnet-5"'
_SECRET = "whsec_c2VjcmV0IGtleSBvZiBvdXJz"


def _receives_what_is_signed(names: Mapping[str, Any], _printed: str) -> None:
    body = json.dumps({"type": "turn.completed", "sessionId": "ses_1", "metadata": {"ticket": 4711}}).encode()
    assert names["receive"](body, {}).startswith("refused")
    headers = signed(body, _SECRET, at=int(time.time()))
    assert names["receive"](body, headers) == "turn.completed of ses_1, ticket 4711"


_IMAGE = """from opencomputer import Image

image = Image.base().run_commands("echo built > built.txt")
"""


def _a_session_was_led(_names: Mapping[str, Any], printed: str) -> None:
    for expected in (
        "turn ended: needs_input",
        "completed Use version 2 of the format.",
        "user.message Make the tests pass.",
        "Something else: add error messages.",
    ):
        assert expected in printed


ADAPTATIONS: Mapping[str, Adaptation] = {
    "docs/guides/agents.md": Adaptation(
        replaced={'Path("calculator.py")': 'Path("$FOLDER/calculator.py")'},
        files={"calculator.py": (REPOSITORY / "tests/support/calculator_mcp.py").read_text()},
    ),
    "docs/guides/durable-sessions.md": Adaptation(
        # Whatever its agents are told, they ask something first and repeat what is said to them next.
        replaced={_MODEL: 'model="scripted/ask-then-echo", runtime="scripted"'},
        files={
            "fixer/agent.toml": 'name = "fixer"\nmodel = "scripted/ask-then-echo"\n',
            "fixer/prompt.md": "You repair programs.",
        },
        check=_a_session_was_led,
    ),
    "docs/guides/images.md": Adaptation(
        # Packages would be fetched from elsewhere; tests/acceptance/test_images.py does that.
        replaced={
            '    .apt_install(["ffmpeg"])\n    .pip_install(["rich"])\n': "",
            '"./app"': '"$FOLDER/app"',
        },
        files={"app/main.py": "print('made')", "image.py": _IMAGE},
    ),
    "docs/operating/backup.md": Adaptation(replaced={"/backup": "$FOLDER/backup"}),
    "docs/guides/webhooks.md": Adaptation(check=_receives_what_is_signed),
}
