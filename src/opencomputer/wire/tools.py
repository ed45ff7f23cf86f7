"""What the tools of a durable session take. The descriptions are what the model reads of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_COMMAND_BYTES = 100_000
"""A shell gets its command as one argument, which the kernel lets have 128 KiB."""
MAX_PATH_BYTES = 4096
MAX_CONTENT_BYTES = 4 << 20
MAX_MESSAGE_BYTES = 256 << 10


def _plain(most: int, otherwise: str) -> AfterValidator:
    def check(value: str) -> str:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError("this is not valid Unicode text") from None
        if size > most:
            raise ValueError(f"at most {most} bytes are allowed, these are {size}; {otherwise}")
        return value

    return AfterValidator(check)


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("there cannot be a NUL in it")
    return value


_Path = Annotated[
    str, Field(min_length=1), _plain(MAX_PATH_BYTES, "no path is longer"), AfterValidator(_no_nul)
]
_Message = Annotated[str, Field(min_length=1), _plain(MAX_MESSAGE_BYTES, "write a file and name it instead")]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class BashArguments(_Arguments):
    command: Annotated[
        str,
        Field(min_length=1, description="What the shell runs."),
        _plain(MAX_COMMAND_BYTES, "write a script first and run that"),
        AfterValidator(_no_nul),
    ]
    timeout: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Seconds after which it is killed; at most 600."),
    ] = None


class ReadArguments(_Arguments):
    path: Annotated[_Path, Field(description="The file, from the root.")]


class WriteArguments(_Arguments):
    path: Annotated[_Path, Field(description="The file, from the root.")]
    content: Annotated[
        str,
        Field(description="All that the file shall contain."),
        _plain(MAX_CONTENT_BYTES, "write it in parts, with bash"),
    ]


class ListArguments(_Arguments):
    path: Annotated[_Path, Field(description="The folder, from the root.")] = "/workspace"


class SayArguments(_Arguments):
    text: Annotated[_Message, Field(description="The message, in Markdown.")]


class AskArguments(_Arguments):
    text: Annotated[_Message, Field(description="The question, with what is needed to answer it.")]
