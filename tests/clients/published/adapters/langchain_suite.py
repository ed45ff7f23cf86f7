"""LangChain's standard suite for sandboxes, on our backend. Run by pytest in the adapters' environment."""

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests

from opencomputer.integrations.langchain import OpenComputerSandbox


class TestStandard(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[OpenComputerSandbox]:
        with OpenComputerSandbox.open() as sandbox:
            yield sandbox
