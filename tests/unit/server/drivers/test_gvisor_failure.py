"""What is made of the texts of runsc. They were seen on the builds of 2024-07 and 2026-09."""

from __future__ import annotations

import pytest

from opencomputer.server.drivers.gvisor.failure import FailureKind, classify

DELETED = """\
checkpoint failed: checkpointing container "m22d9ff1624a38f4": encoding error: \
gofer.dentry("root/doomed").beforeSave: deleted and invalidated dentries can't be restored:
goroutine 174 [running]:
gvisor.dev/gvisor/pkg/state.safely.func1()
\tgvisor.dev/gvisor/pkg/state/state.go:309 +0x179
"""


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (DELETED, FailureKind.DELETED_FILE),
        ("loading container: file does not exist\n", FailureKind.GONE),
        (
            'starting container: opening state file "img/checkpoint.img" failed: open img/checkpoint.img: '
            "no such file or directory",
            FailureKind.BAD_IMAGE,
        ),
        (
            "running container: starting container: starting root container: starting sandbox: creating "
            "process: failed to load /nope: no such file or directory",
            FailureKind.OTHER,
        ),
        ("", FailureKind.OTHER),
        ("something nobody has seen yet", FailureKind.OTHER),
    ],
)
def test_kinds(output: str, kind: FailureKind) -> None:
    assert classify(output).kind is kind


def test_the_deleted_file_is_named_as_the_machine_sees_it() -> None:
    assert classify(DELETED).path == "/root/doomed"


def test_call_stacks_are_left_out_of_the_message() -> None:
    message = classify(DELETED).message
    assert message.endswith("can't be restored:")
    assert "state.go" not in message


def test_a_long_message_is_cut_and_an_empty_one_is_said() -> None:
    assert len(classify("x" * 10_000).message) == 600
    assert classify(" \n").message == "runsc said nothing"


def test_a_file_name_cannot_pose_as_another_failure() -> None:
    """File names are chosen inside the machine, and this text is where they meet our decisions."""
    tricky = DELETED.replace("root/doomed", "root/loading container: file does not exist")
    assert classify(tricky).kind is FailureKind.DELETED_FILE
