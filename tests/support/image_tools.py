"""What tests of imported images need of this host."""

from __future__ import annotations

import os
import shutil

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files get other owners")

needs_image_tools = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("skopeo") and shutil.which("umoci")),
    reason="needs root, skopeo and umoci: make setup",
)
