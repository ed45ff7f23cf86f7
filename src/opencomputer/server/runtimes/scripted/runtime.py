"""The scripted runtime: whole sessions without a model, for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.server.contracts.runtimes import BrainProgram, SkillFile, Translator
from opencomputer.server.domain.sessions.events import Json
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.server.runtimes.launching import MACHINE_PROGRAMS, MACHINE_PYTHON, brain_program
from opencomputer.server.runtimes.plain import PlainTranslator
from opencomputer.server.runtimes.prompting import steered


class ScriptedRuntime:
    """Its models are behaviours: `scripted/echo`, `scripted/run` and so on. See Runtime.

    `python` and `programs` say where its machines have an interpreter and our programs.
    """

    name = "scripted"
    providers = frozenset({"scripted"})
    takes_skills = False

    def __init__(self, python: str = MACHINE_PYTHON, programs: str = MACHINE_PROGRAMS) -> None:
        self._program = brain_program(python, self.name, programs=programs)

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        """See Runtime."""
        return self._program

    def endpoint(self, gateway_url: str) -> Json:
        """See Runtime: it has no model to reach."""
        return {"mode": "none"}

    def system_prompt(self, agent: PinnedAgent) -> str:
        """See Runtime."""
        return steered(agent)

    def translator(self) -> Translator:
        """See Runtime."""
        return PlainTranslator()
