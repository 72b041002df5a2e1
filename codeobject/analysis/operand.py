"""Operand text as LLVM prints it, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Operands", "parse_operands", "split_mnemonic"]

_ENCODINGS = ("_e64_dpp", "_e32", "_e64", "_sdwa", "_dpp")
_OPENING = "([{"
_CLOSING = ")]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Operands in order, and the modifiers that stand after the last one."""

    values: tuple[str, ...]
    modifiers: dict[str, str]
    """`offset:16` is {"offset": "16"}; a bare flag such as `offen` maps to the empty string."""


def split_mnemonic(mnemonic: str) -> tuple[str, str]:
    """`v_add_f32_e32` gives (`v_add_f32`, `e32`); no suffix gives an empty second part."""
    for encoding in _ENCODINGS:
        if mnemonic.endswith(encoding):
            return mnemonic.removesuffix(encoding), encoding[1:]
    return mnemonic, ""


def parse_operands(text: str) -> Operands:
    """Split at commas outside brackets; the words after the last operand are modifiers."""
    values = [part.strip() for part in _split(text, ",")]
    modifiers: dict[str, str] = {}
    if values:
        words = [word for word in _split(values[-1], " ") if word]
        # One operand may itself be several words only for s_waitcnt, which has its own parser.
        values[-1] = words[0] if words else ""
        for word in words[1:]:
            name, _, value = word.partition(":")
            modifiers[name] = value
        if values[-1] and re.match(r"(?:row|quad|wave)_\w+", values[-1]):
            raise ValueError(f"modifier where an operand should be: {text!r}")
    return Operands(values=tuple(value for value in values if value), modifiers=modifiers)


def _split(text: str, separator: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    parts.append(text[start:])
    return parts
