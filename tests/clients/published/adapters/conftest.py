"""Which part of LangChain's standard suite is run: see `BEFORE_0_7`."""

import pytest

BEFORE_0_7 = {
    "test_glob",
    "test_glob_basic_pattern",
    "test_glob_hidden_files_explicitly",
    "test_glob_with_character_class",
    "test_glob_with_directories",
    "test_glob_with_question_mark",
    "test_write_existing_file_fails",
}
"""The suite still wants of these what deepagents promised before 0.7: paths relative to where was searched,
and that no file is written twice. With the present deepagents the others are run, with the last one before
0.7 these."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--before-0-7", action="store_true")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    before = bool(config.getoption("--before-0-7"))
    left_out = [
        item
        for item in items
        if item.module.__name__ == "langchain_suite" and (item.originalname in BEFORE_0_7) is not before
    ]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
