"""Cutting texts to what a model, a summary or an event has room for."""

from __future__ import annotations


def one_line(text: str, most: int) -> str:
    """The beginning, on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def ending(text: str, most: int) -> str:
    """The end, which is where programs say how it went."""
    text = text.strip()
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def beginning(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def middle_out(text: str, most_bytes: int) -> str:
    """Both ends, with a line between them that says how much is missing. At most `most_bytes` of UTF-8."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= most_bytes:
        return encoded.decode()
    note = f"\n[… {len(encoded) - most_bytes} bytes and more are left out here …]\n"
    half = (most_bytes - len(note.encode())) // 2
    head = encoded[:half].decode(errors="ignore")
    tail = encoded[-half:].decode(errors="ignore")
    return f"{head}{note}{tail}"
