"""Interactive commands of `oc` for what only a fake node has, in a real terminal.

The others are typed on a real node, in tests/acceptance/test_typed_and_seen.py.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.fake_node import FakeNode
from tests.support.recording import check_recording
from tests.support.tmux import Tmux
from tests.unit.cli.recorded import Recorded
from tests.unit.cli.test_hosted import INSTANCE, IT, REPLY


def test_a_hosted_agent_is_talked_with_until_the_end_of_input(tmp_path: Path) -> None:
    with FakeNode() as node:
        Recorded("", "GET", f"{IT}/instances", {"instances": [INSTANCE]}).teach(node)
        Recorded("", "POST", f"{IT}/instances/inst_1/messages", REPLY).teach(node)
        environment = {
            "OPENCOMPUTER_API_URL": node.url,
            "SESSIONS_API_URL": node.url,
            "OPENCOMPUTER_API_KEY": node.api_key,
        }
        with Tmux(tmp_path, environment) as person:
            person.ask("oc agent chat bot")
            person.until("you>")
            person.type("Hi.")
            person.until(lambda screen: screen.count("you>") == 2)
            person.keys("C-d")
            check_recording("agent_chat", person.until_ended())
