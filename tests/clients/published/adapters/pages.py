"""The Python blocks of a guide, run one after the other. What readers have to bring is given by name."""

import ast
import inspect
import re
from pathlib import Path

GUIDES = Path(__file__).resolve().parents[4] / "docs/guides/integrations"
_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


async def run_page(name, **given):
    """Returns the names that each block has defined."""
    defined = []
    for source in _BLOCK.findall((GUIDES / name).read_text()):
        names = dict(given)
        program = compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(program, names)
        if inspect.iscoroutine(ran):
            await ran
        defined.append(names)
    assert defined
    return defined
