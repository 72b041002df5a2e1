"""Types of a kernel's pointer parameters from its mangled C++ name.

A small part of the Itanium C++ ABI's mangling ("Itanium C++ ABI", 5.1): functions that are no
templates, with builtin types, the named half types of HIP, pointers, qualifiers and substitutions.
Anything else gives no answer.
"""

from __future__ import annotations

from asmevo.replay.elements import ElementType

__all__ = ["read_pointer_types"]

_BUILTIN = {
    "f": ElementType.F32,
    "d": ElementType.F64,
    "a": ElementType.I8,
    "c": ElementType.I8,
    "h": ElementType.U8,
    "s": ElementType.I16,
    "t": ElementType.U16,
    "i": ElementType.I32,
    "j": ElementType.U32,
    "l": ElementType.I64,
    "m": ElementType.U64,
    "x": ElementType.I64,
    "y": ElementType.U64,
    "DF16_": ElementType.F16,
    "Dh": ElementType.F16,
    "DF16b": ElementType.BF16,
}
_OTHER_BUILTIN = ("v", "b", "w", "n", "o", "g", "e")
_NAMED = {
    "__half": ElementType.F16,
    "__hip_bfloat16": ElementType.BF16,
    "hip_bfloat16": ElementType.BF16,
}
_MAX_DEPTH = 32

_Type = tuple[int, ElementType | None]
"""Levels of pointer, and the type at the end of them."""


class _NotUnderstoodError(Exception):
    pass


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._known: list[_Type] = []

    def parameters(self) -> list[_Type]:
        if not self._take("_Z"):
            raise _NotUnderstoodError
        if self._take("N"):
            self._name()
            while not self._take("E"):
                self._remember((0, None))  # the scope so far can be substituted, too
                self._name()
        else:
            self._name()
        found = []
        while self._at < len(self._text):
            found.append(self._type(0))
        return found

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _name(self) -> str:
        start = self._at
        while self._at < len(self._text) and self._text[self._at].isdigit():
            self._at += 1
        digits = self._text[start : self._at]
        if not digits or len(digits) > 5:
            raise _NotUnderstoodError
        end = self._at + int(digits)
        name, self._at = self._text[self._at : end], end
        if end > len(self._text):
            raise _NotUnderstoodError
        return name

    def _type(self, depth: int) -> _Type:
        if depth > _MAX_DEPTH:
            raise _NotUnderstoodError
        if self._take("P"):
            levels, base = self._type(depth + 1)
            return self._remember((levels + 1, base))
        is_qualified = False
        while any(self._take(qualifier) for qualifier in ("r", "V", "K")):
            is_qualified = True
        if is_qualified:
            return self._remember(self._type(depth + 1))
        if self._take("S"):
            return self._substitution()
        for code, element in sorted(_BUILTIN.items(), key=lambda item: -len(item[0])):
            if self._take(code):
                return 0, element
        if any(self._take(code) for code in _OTHER_BUILTIN):
            return 0, None
        return self._remember((0, _NAMED.get(self._name())))

    def _remember(self, found: _Type) -> _Type:
        self._known.append(found)
        return found

    def _substitution(self) -> _Type:
        end = self._text.find("_", self._at)
        digits = self._text[self._at : end]
        if end < 0 or len(digits) > 2 or (digits and not digits.isalnum()):
            raise _NotUnderstoodError
        index = int(digits, 36) + 1 if digits else 0
        self._at = end + 1
        if index >= len(self._known):
            raise _NotUnderstoodError
        return self._known[index]


def read_pointer_types(name: str) -> tuple[ElementType | None, ...] | None:
    """What each parameter points to, None for one that is no pointer to a known type.

    None altogether when the name is not mangled or not understood.
    """
    try:
        parameters = _Reader(name.removesuffix(".kd")).parameters()
    except (_NotUnderstoodError, ValueError):
        return None
    return tuple(base if levels == 1 else None for levels, base in parameters)
