"""Option strings of overlay mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencomputer.server.host.mounts import TooManyLayers, overlay_options


def test_the_topmost_layer_comes_first() -> None:
    """We say bottom first, the kernel wants the top first."""
    options = overlay_options([Path("/bottom"), Path("/middle"), Path("/top")], Path("/u"), Path("/w"))
    assert options.startswith("lowerdir=/top:/middle:/bottom,upperdir=/u,workdir=/w,")


def test_separators_in_paths_are_escaped() -> None:
    options = overlay_options([Path("/a:b,c\\d")], Path("/u,u"), Path("/w:w"))
    assert "lowerdir=/a\\:b\\,c\\\\d," in options
    assert "upperdir=/u\\,u," in options


def test_more_layers_than_fit_are_refused() -> None:
    """The kernel would cut the string silently and mount something else."""
    with pytest.raises(TooManyLayers):
        overlay_options(
            [Path(f"/var/lib/layers/{number:060d}") for number in range(60)], Path("/u"), Path("/w")
        )
