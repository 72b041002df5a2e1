"""Symbols that assembly text can hold, and how it spells them."""

from __future__ import annotations

import re
from typing import Final

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.elf import Symbol
from asmevo.errors import CodeObjectError

__all__ = ["quote_symbol", "writable_symbols"]

_TYPES: Final = frozenset(("STT_FUNC", "STT_OBJECT", "STT_NOTYPE"))

_PLAIN = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")


def quote_symbol(name: str) -> str:
    """`name` as the assembler takes it; CodeObjectError for one that no quoting can carry."""
    if _PLAIN.fullmatch(name):
        return name
    if not name or not name.isascii() or not name.isprintable() or '"' in name or "\\" in name:
        raise CodeObjectError(f"symbol {name[:60]!r} cannot be written in assembly")
    return f'"{name}"'


def writable_symbols(source: CodeObject) -> tuple[Symbol, ...]:
    """The symbols that recovered text defines: `.symtab` or, when stripped, `.dynsym`.

    Local symbols may share a name (one per translation unit); only the first can be written. `.L`
    names are private to the assembler and to the labels of recovery.
    """
    kept: dict[str, Symbol] = {}
    for one in source.symbols or source.dynamic_symbols:
        is_local = one.binding == "STB_LOCAL"
        if one.section is None or one.type not in _TYPES or not one.name:
            continue
        if is_local and one.name.startswith(".L"):
            continue
        if one.name not in kept or not is_local:
            kept[one.name] = one
    return tuple(kept.values())
