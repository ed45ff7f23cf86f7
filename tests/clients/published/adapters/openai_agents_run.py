"""The guide for the OpenAI Agents SDK, its model a script. Run by pytest in the adapters' environment."""

import json

from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    ResponseCustomToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pages import run_page

PATCH = """*** Begin Patch
*** Update File: app.py
@@
-print("wrong")
+print("right", 6 * 7)
*** Add File: more/notes.md
+written by a patch
*** End Patch
"""


def shell(number, command, **arguments):
    return ResponseFunctionToolCall(
        type="function_call",
        call_id=f"call-{number}",
        name="exec_command",
        arguments=json.dumps({"cmd": command, **arguments}),
    )


SCRIPT = [
    shell(1, "python3 app.py"),
    ResponseCustomToolCall(type="custom_tool_call", call_id="call-2", name="apply_patch", input=PATCH),
    shell(3, "python3 app.py; cat more/notes.md"),
    ResponseOutputMessage(
        id="message",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text="It is right now.", annotations=[])],
    ),
]


class Scripted(Model):
    def __init__(self):
        self.turn = 0
        self.last_input = []

    async def get_response(self, system_instructions, input, *_, **__):
        self.last_input = input
        item = SCRIPT[self.turn]
        self.turn += 1
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


async def test_the_guide_is_true(capsys):
    model = Scripted()
    await run_page("openai-agents.md", model=model)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["It is right now.", "b'remembered\\n'"]
    assert "/?oc_preview_grant=" in lines[2]

    outputs = [str(item["output"]) for item in model.last_input if "output" in item]
    assert len(outputs) == 3
    assert "wrong" in outputs[0]
    assert "right 42\nwritten by a patch" in outputs[2]
