"""The metadata note as assembly: YAML between `.amdgpu_metadata` directives, or the bytes
themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.metadata import NOTE_OWNER, NOTE_TYPE
from asmevo.errors import CodeObjectError

__all__ = ["emit_bytes", "emit_metadata"]

_MAX_DEPTH: Final = 32
# Plain scalars that are surely strings: keys (`.name`), value kinds, identifiers. Words that YAML
# reads as booleans or nil are left out below.
_PLAIN = re.compile(r"[A-Za-z_.][A-Za-z0-9_.]*")
_BEYOND_16_BITS = re.compile("([\U00010000-\U0010ffff])")
_NOT_PLAIN = re.compile(r"true|false|yes|no|on|off|y|n|null|\.?nan|\.?inf", re.IGNORECASE)


def emit_metadata(source: CodeObject, *, raw: bool) -> Iterator[str]:
    """Lines that give the metadata note back."""
    if raw:
        yield from _emit_note(source.metadata_note)
        return
    yield "\t.amdgpu_metadata"
    yield "---"
    yield from _emit_map(source.metadata, 0)
    yield "..."
    yield "\t.end_amdgpu_metadata"


def emit_bytes(data: bytes) -> Iterator[str]:
    """Lines of `.byte`, with runs of zeros as `.zero`."""
    for part in re.finditer(rb"\0{16,}|(?:(?!\0{16}).){1,16}", data, re.DOTALL):
        if len(part[0]) >= 16 and not any(part[0]):
            yield f"\t.zero {len(part[0])}"
        else:
            yield "\t.byte " + ",".join(f"{byte:#04x}" for byte in part[0])


def _emit_note(note: bytes) -> Iterator[str]:
    yield '\t.section .note,"a",@note'
    yield "\t.p2align 2"
    yield f"\t.long {len(NOTE_OWNER) + 1}, {len(note)}, {NOTE_TYPE}"
    yield f'\t.asciz "{NOTE_OWNER}"'
    yield "\t.p2align 2"
    yield from emit_bytes(note)
    yield "\t.p2align 2"


def _emit_map(tree: Mapping[Any, object], depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise CodeObjectError("metadata is nested too deep")
    indent = "  " * depth
    for key, value in tree.items():
        yield from _emit_value(f"{indent}{_scalar(key)}:", value, depth)


def _emit_value(head: str, value: object, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from _emit_map(value, depth + 1)
    elif isinstance(value, list) and value:
        yield head
        yield from _emit_list(value, depth + 1)
    else:
        yield f"{head} {_scalar(value)}"


def _emit_list(items: list[object], depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise CodeObjectError("metadata is nested too deep")
    indent = "  " * depth
    for item in items:
        if isinstance(item, Mapping) and item:
            # The first key stands behind the dash, two columns in, where the others line up with
            # it.
            lines = list(_emit_map(item, depth + 1))
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]
        elif isinstance(item, list) and item:
            yield f"{indent}-"
            yield from _emit_list(item, depth + 1)
        else:
            yield f"{indent}- {_scalar(item)}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and not _NOT_PLAIN.fullmatch(value)
        return value if is_plain else f"!str {_quote(value)}"
    # Floats, nil and byte strings do not come back as they were: the caller falls back to the raw
    # note.
    return f"!str {_quote(str(value))}"


def _quote(text: str) -> str:
    """A double-quoted YAML scalar in ASCII: as in JSON, but characters beyond 16 bits are one
    escape."""
    parts = _BEYOND_16_BITS.split(text)
    escaped = [
        f"\\U{ord(part):08x}" if number % 2 else json.dumps(part)[1:-1]
        for number, part in enumerate(parts)
    ]
    return f'"{"".join(escaped)}"'
