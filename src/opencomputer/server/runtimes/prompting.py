"""What every engine's system prompt says besides the agent's own words."""

from __future__ import annotations

from opencomputer.server.domain.sessions.session import PinnedAgent

STEERING = """\
## Where you work

You run apart from the computer you work on. The only way to that computer, a Linux machine, is through \
the tools `bash`, `read`, `write` and `ls`. Its files are under /workspace. Every `bash` call is a new \
shell: directory, variables and functions do not carry over, so use absolute paths or begin with \
`cd /workspace && …`.

## Whom you talk to

Nobody reads what you write between tool calls; it is kept as a note on your progress. Whatever is meant \
for the person who gave you this task, the final answer above all, goes through the tool `say`. Your last \
`say` of a turn counts as its result. When you cannot sensibly go on without an answer from them, use \
`ask` with one clear question and then stop: the answer comes as their next message. Do not ask for what \
you can find out or decide yourself.

A tool result may tell you that an earlier call was interrupted and that its effects are unknown. Look at \
what is there before you repeat such a call."""


def steered(agent: PinnedAgent) -> str:
    """The agent's prompt with the steering note after it."""
    return f"{agent.prompt.rstrip()}\n\n{STEERING}" if agent.prompt.strip() else STEERING
