"""Build the base template or the guest's runtime where a node looks for them. Used by `make setup`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opencomputer.server.domain.errors import OpenComputerError
from opencomputer.server.settings import SettingsError, load_settings
from opencomputer.server.templates.builder import BuildOptions, build_template
from opencomputer.server.templates.runtime import ensure_runtime

RECIPE = Path(__file__).resolve().parents[1] / "templates/base"
DEFAULT_TEMPLATES = "/var/lib/opencomputer/templates"


def main() -> int:
    templates = Path(os.environ.get("OPENCOMPUTER_TEMPLATES") or DEFAULT_TEMPLATES)
    templates.mkdir(parents=True, exist_ok=True)
    try:
        if sys.argv[1:] == ["runtime"]:
            print(f"done: {ensure_runtime(templates)}")
            return 0
        options = BuildOptions(
            environment=os.environ,
            trust_host_certificates=load_settings(os.environ).trust_host_certificates,
        )
        template = build_template(RECIPE, templates, lambda line: print(line, flush=True), options)
    except (OpenComputerError, SettingsError) as error:
        print(error)
        return 1
    print(f"done: {template.name}/{template.hash}, {template.size_bytes / 1e9:.1f} GB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
