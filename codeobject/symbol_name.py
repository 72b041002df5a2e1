"""Symbol names in assembly text."""

from __future__ import annotations

import re

from asmevo.errors import CodeObjectError

__all__ = ["quote_symbol"]

_PLAIN = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]*")


def quote_symbol(name: str) -> str:
    """`name` as the assembler takes it; CodeObjectError for one that no quoting can carry."""
    if _PLAIN.fullmatch(name):
        return name
    if not name or not name.isascii() or not name.isprintable() or '"' in name or "\\" in name:
        raise CodeObjectError(f"symbol {name[:60]!r} cannot be written in assembly")
    return f'"{name}"'
