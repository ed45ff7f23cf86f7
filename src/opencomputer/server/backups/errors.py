"""What can be wrong with a backup, in words for an operator."""

from __future__ import annotations


class BackupError(Exception):
    """A backup cannot be made, read or restored; the message says why and what to do."""


class BackupDamaged(BackupError):
    """Something in a backup is not what was put there."""


class TargetInUse(BackupError):
    """The folder that should be restored into holds something already."""
