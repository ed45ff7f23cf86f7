"""The Claude runtime: Anthropic's models in the loop of the Claude Agent SDK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opencomputer.server.contracts.runtimes import STATE_FOLDER, BrainProgram, SkillFile, Translator
from opencomputer.server.domain.egress import METADATA_URL
from opencomputer.server.domain.sessions.events import Json
from opencomputer.server.domain.sessions.session import PinnedAgent
from opencomputer.server.runtimes.claude.translator import ClaudeTranslator
from opencomputer.server.runtimes.launching import SDK_PYTHON, brain_program
from opencomputer.server.runtimes.prompting import steered

SKILLS_FOLDER = f"{STATE_FOLDER}/claude/skills"
"""Where the engine looks for skills, with its own things in the state folder."""


GATEWAY = f"{METADATA_URL}/v1/model/anthropic"
"""Where an engine that is started beforehand expects its model. Requests that say otherwise get another."""


class ClaudeRuntime:
    """See Runtime. The engine comes with the template."""

    name = "claude"
    providers = frozenset({"anthropic"})
    takes_skills = True

    def program(self, agent: PinnedAgent, skills: Sequence[SkillFile]) -> BrainProgram:
        """See Runtime. Nothing in a brain runs a skill's programs, so their modes do not matter."""
        files = {f"{SKILLS_FOLDER}/{file.path}": file.content for file in skills}
        return replace(
            brain_program(SDK_PYTHON, self.name), files=files, environment={"ANTHROPIC_BASE_URL": GATEWAY}
        )

    def endpoint(self, gateway_url: str) -> Json:
        """See Runtime."""
        return {"mode": "gateway", "base_url": f"{gateway_url}/anthropic", "auth_env": "ANTHROPIC_API_KEY"}

    def system_prompt(self, agent: PinnedAgent) -> str:
        """See Runtime."""
        return steered(agent)

    def translator(self) -> Translator:
        """See Runtime."""
        return ClaudeTranslator()
