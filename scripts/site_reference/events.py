"""The kinds of events of durable sessions, and of sandboxes, from where they are defined."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

from opencomputer.sdk.durable.events import read_event
from opencomputer.server.domain import lifecycle_events
from opencomputer.server.domain.sessions import events
from site_reference.tables import code, table

_HEAD = """# Events of durable sessions

The log of a session is a list of events. Each one is committed before anybody hears of it, and never changes.

| Field | Meaning |
|---|---|
| `id` | `evt_…` |
| `seq` | its place in the log, from 1 without gaps: what `after=` and a stream's `Last-Event-ID` refer to |
| `ts` | when, RFC 3339 in UTC |
| `session` | `ses_…` |
| `actor` | who caused it: `type` is `human`, `agent` or `system` |
| `type`, `body` | what happened, as below |
| `level` | for whom it is; asking for one level gives it and those above it here |
| `turn_id` | the turn it is part of, or `null` |
| `refs` | what else it is about |
| `content_ref`, `body_truncated`, `body_bytes` | there when the body was too large: \
`GET …/events/{id}/content` has all of it |

Kinds that your program does not know may appear at any time; pass them by.

## Levels
"""

_SANDBOXES = """## Events of sandboxes

What [webhooks of sandboxes](../guides/webhooks.md#of-sandboxes) get. `event` in the body has `id`, `ts`, \
`orgId`, `sandboxId`, `type` and `data`.
"""


@dataclass(frozen=True)
class Kind:
    type: str
    meaning: str


def page() -> str:
    levels = table(("Level", "For whom"), ((code(each.value), _FOR[each]) for each in events.Level))
    rows = ((code(each.type), each.meaning, code(_class_of(each.type))) for each in kinds())
    of_sessions = table(("Type", "Means, and what its body has", "Python"), rows)
    of_sandboxes = table(
        ("Type", "Means, and what its data has"),
        ((code(each.type), each.meaning) for each in kinds(lifecycle_events)),
    )
    return f"{_HEAD}\n{levels}\n## Kinds\n\n{of_sessions}\n{_SANDBOXES}\n{of_sandboxes}"


_FOR = {
    events.Level.USER: "people: what was said, how turns ended",
    events.Level.PROGRESS: "and who wants to watch: narration, turns that begin",
    events.Level.INTERNAL: "and who wants to know everything: tools, machines, restarts",
}


def kinds(module: ModuleType = events) -> Iterator[Kind]:
    """Each constant of the module that names a type of event; the text below it says what it means."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(type))),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ) if name.isupper():
                yield Kind(type, meaning)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str())), _ if (
                name.isupper()
            ):
                raise ValueError(f"{name} has no text that says what it means")
            case _:
                pass


def _class_of(type: str) -> str:
    return read_event({"id": "", "seq": 1, "type": type}).__class__.__name__
