"""Every module can be imported by itself, so that nothing in the tree is quietly dead."""

from __future__ import annotations

import importlib

import pytest

from tests.architecture.tree import modules

# Needs the engine that only templates have.
_ONLY_IN_MACHINES = "opencomputer.inside.agent_runner"
# A script: importing it runs it.
_SCRIPT = "opencomputer.inside.sudo.client"
# Each needs the framework that it is for; tests/clients runs them where these are.
_NEEDS = {
    "opencomputer.integrations.inspect_ai": "inspect_ai",
    "opencomputer.integrations.langchain": "deepagents",
    "opencomputer.integrations.openai_agents": "agents",
}
# Run by Alembic, with its own context around them.
_RUN_BY_ALEMBIC = "opencomputer.server.stores.sql.migrations"


@pytest.mark.parametrize("name", [name for name in modules() if not name.endswith("__main__")])
def test_a_module_can_be_imported(name: str) -> None:
    if name == _SCRIPT or (name.startswith(_RUN_BY_ALEMBIC) and name != _RUN_BY_ALEMBIC):
        assert compile(modules()[name].read_text(), name, "exec")
        return
    try:
        assert importlib.import_module(name)
    except ModuleNotFoundError as error:
        frameworks = [framework for part, framework in _NEEDS.items() if name.startswith(part)]
        if error.name not in frameworks and not (
            name.startswith(_ONLY_IN_MACHINES) and error.name == "claude_agent_sdk"
        ):
            raise
        assert compile(modules()[name].read_text(), name, "exec")
