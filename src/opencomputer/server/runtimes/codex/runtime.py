"""The Codex runtime: OpenAI's models in the loop of the Codex command line program."""

from __future__ import annotations

from collections.abc import Sequence

from opencomputer.server.contracts.runtimes import BrainProgram, SkillFile, Translator
from opencomputer.server.domain.sessions.events import Json
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.server.runtimes.codex.translator import CodexTranslator
from opencomputer.server.runtimes.launching import MACHINE_PYTHON, brain_program
from opencomputer.server.runtimes.prompting import steered


class CodexRuntime:
    """See Runtime. The engine comes with the template; what serves it needs our own interpreter only."""

    name = "codex"
    providers = frozenset({"openai"})
    takes_skills = False

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        """See Runtime."""
        return brain_program(MACHINE_PYTHON, self.name)

    def endpoint(self, gateway_url: str) -> Json:
        """See Runtime. The engine asks for `/responses` below this."""
        return {"mode": "gateway", "base_url": f"{gateway_url}/openai/v1", "auth_env": "OPENAI_API_KEY"}

    def system_prompt(self, agent: PinnedAgent) -> str:
        """See Runtime."""
        return steered(agent)

    def translator(self) -> Translator:
        """See Runtime."""
        return CodexTranslator()
