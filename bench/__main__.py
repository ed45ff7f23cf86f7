"""`python -m bench WHAT`: measure, print a table, write every sample to bench/results/."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from bench import (
    cli_start,
    density,
    exec,
    files,
    first_call,
    image,
    imports,
    layers,
    preview,
    proxy,
    sessions,
    state,
    tti,
)
from bench.calibration import calibrate
from bench.node import Place
from bench.report import Result, save, show

_FIRST = ("tti", "exec", "files", "density")
_OTHERS = ("cli_start", "first_call", "image", "imports", "layers", "preview", "proxy", "sessions")
_STATE = ("fork", "checkpoint", "hibernate")
_RESULTS = Path(__file__).with_name("results")


def main() -> int:
    options = _parse()
    benches = _benches(options)
    names = list(benches) if options.what == "all" else [options.what]
    failed = False
    for name in names:
        before = calibrate()
        result = benches[name]()
        after = calibrate()
        show(result, before, after)
        print(f"samples: {save(result, before, after, options.results)}\n")
        failed = failed or bool(result.failures)
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "what",
        choices=(
            "tti",
            "exec",
            "files",
            "density",
            *_STATE,
            "cli_start",
            "first_call",
            "image",
            "imports",
            "layers",
            "preview",
            "proxy",
            "sessions",
            "all",
        ),
    )
    parser.add_argument(
        "--url",
        help="measure this node, not our own (not cli_start, density, first_call, layers, proxy, sessions)",
    )
    parser.add_argument("--key", help="an API key of that node")
    parser.add_argument("--count", type=int, help="how many sandboxes, or round trips")
    parser.add_argument("--mode", choices=tti.MODES, help="tti: only this mode")
    parser.add_argument("--mebibytes", type=int, default=1024, help="files: the size of the file")
    parser.add_argument(
        "--growth",
        action="store_true",
        help="fork, checkpoint, hibernate: also by memory touched, bytes written and number of files",
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="where the JSON goes")
    options = parser.parse_args()
    if bool(options.url) != bool(options.key):
        parser.error("--url and --key belong together")
    return options


def _benches(options: argparse.Namespace) -> Mapping[str, Callable[[], Result]]:
    place = Place(options.url.rstrip("/"), options.key) if options.url else None
    modes = (options.mode,) if options.mode else tti.MODES
    return {
        "tti": lambda: tti.measure(tti.TtiOptions(options.count or 100, modes, place)),
        "exec": lambda: exec.measure(exec.ExecOptions(options.count or 300, place)),
        "files": lambda: files.measure(files.FilesOptions(options.mebibytes, place=place)),
        "density": lambda: density.measure(density.DensityOptions(options.count or 30)),
        **{
            name: partial(state.measure, name, state.StateOptions(options.count or 20, options.growth, place))
            for name in _STATE
        },
        "imports": lambda: imports.measure(imports.ImportsOptions(options.count or 20)),
        "image": lambda: image.measure(image.ImageOptions(options.count or 20, place)),
        "preview": lambda: preview.measure(preview.PreviewOptions(options.count or 500, place=place)),
        "proxy": lambda: proxy.measure(proxy.ProxyOptions(options.count or 1000)),
        "sessions": lambda: sessions.measure(sessions.SessionsOptions(options.count or 300)),
        "first_call": lambda: first_call.measure(first_call.FirstCallOptions(options.count or 10)),
        "cli_start": lambda: cli_start.measure(cli_start.StartOptions(options.count or 20)),
        "layers": lambda: layers.measure(layers.LayersOptions(options.count or 3)),
    }


if __name__ == "__main__":
    sys.exit(main())
