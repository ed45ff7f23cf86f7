"""Commands against answers that a test wrote down: what was asked, and what is printed for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.fake_node import FakeNode, Rule

_FOR_EVER = 1_000
_OPTIONS = {"text": [], "json": ["--json"], "quiet": ["--quiet"]}
FORMS = tuple(_OPTIONS)


@dataclass(frozen=True)
class Recorded:
    """One command, the request that it makes, and the answer to it."""

    command: str
    method: str
    path: str
    answer: object = None
    status: int = 200
    sent: object = None
    query: Mapping[str, str] = field(default_factory=dict[str, str])

    def arguments(self, form: str) -> list[str]:
        """The command's words; `~` stands for a space within one."""
        words = [word.replace("~", " ") for word in self.command.split()]
        return [*words, *_OPTIONS[form]]

    def teach(self, node: FakeNode) -> None:
        """Let the node give the answer."""
        node.rules.append(Rule(self.method, self.path, self.status, self.answer, times=_FOR_EVER))

    def check(self, node: FakeNode) -> None:
        """The request was made, exactly once and as written down."""
        (seen,) = [one for one in node.seen if (one.method, one.path) == (self.method, self.path)]
        assert (seen.body, seen.query) == (self.sent, dict(self.query))


def check_form(form: str, printed: str) -> None:
    """Nothing but JSON is printed where JSON was asked for."""
    if form == "json":
        json.loads(printed)
