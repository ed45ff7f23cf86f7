"""Runs the checks of one area against a server and prints what became of each, one JSON object a line.

Used by scripts that run in the environment of the published SDK, which has no test framework. The server is
named by OPENCOMPUTER_API_URL and OPENCOMPUTER_API_KEY, which the SDK reads by itself.
"""

import asyncio
import inspect
import json
import sys
import time
import traceback

from opencomputer import Sandbox

CHECK_SECONDS = 110
_checks = []


def covers(*methods):
    """Mark a check and say which rows of the contract's list of methods it exercises."""

    def register(check):
        _checks.append((check, methods))
        return check

    return register


def raises(kind, call):
    """A coroutine that awaits `call` and returns the error of type `kind` it must end with."""

    async def run():
        try:
            await call
        except kind as error:
            return error
        raise AssertionError(f"{kind.__name__} was not raised")

    return run()


async def until(condition, seconds=60):
    """Wait for something that happens elsewhere."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not come true in time"
        await asyncio.sleep(0.02)


async def _run_all():
    async with await Sandbox.create() as sandbox:
        for check, methods in _checks:
            began = time.monotonic()
            problem = ""
            try:
                arguments = [sandbox] if inspect.signature(check).parameters else []
                await asyncio.wait_for(check(*arguments), CHECK_SECONDS)
            except Exception:
                problem = traceback.format_exc()
            report = {
                "name": check.__name__,
                "methods": methods,
                "problem": problem,
                "seconds": round(time.monotonic() - began, 3),
            }
            print(json.dumps(report), flush=True)


def main():
    sys.exit(asyncio.run(_run_all()))
