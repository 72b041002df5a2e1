"""Checked access to the fields of a JSON object that somebody else wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from asmevo.errors import BundleError

__all__ = ["Fields"]


class Fields:
    """The values of one JSON object with exactly the keys that are expected."""

    def __init__(self, data: object, where: str, keys: Sequence[str]) -> None:
        """Check that `data` is an object with exactly `keys`; `where` names it in errors."""
        self._where = where
        if not isinstance(data, dict):
            raise self._error("is not an object")
        if unknown := sorted(map(str, set(data) - set(keys))):
            raise self._error(f"unknown key {unknown[0][:64]!r}")
        if missing := sorted(set(keys) - set(data)):
            raise self._error(f"key {missing[0]!r} is missing")
        self._data: dict[str, object] = data

    def value(self, key: str) -> object:
        """The raw value, for a nested record's own `from_json`."""
        return self._data[key]

    def integer(self, key: str, low: int, high: int) -> int:
        """An integer within `low`..`high`, both included."""
        return self._integer(key, self._data[key], low, high)

    def integers(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """A short list of integers within bounds."""
        return tuple(self._integer(key, item, low, high) for item in self.items(key, 16))

    def number(self, key: str) -> float:
        """A finite number that is not negative."""
        value = self._data[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(f"{key} is not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not (math.isfinite(number) and number >= 0):
            raise self._error(f"{key} is out of bounds")
        return number

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._data[key]
        if not isinstance(value, bool):
            raise self._error(f"{key} is neither true nor false")
        return value

    def text(
        self, key: str, *, limit_bytes: int = 256, pattern: re.Pattern[str] | None = None
    ) -> str:
        """A string of at most `limit_bytes` in UTF-8 that matches `pattern` whole."""
        return self._text(key, self._data[key], limit_bytes, pattern)

    def texts(self, key: str, *, count: int, limit_bytes: int) -> tuple[str, ...]:
        """A list of at most `count` strings."""
        return tuple(self._text(key, item, limit_bytes, None) for item in self.items(key, count))

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """One of the allowed strings."""
        value = self._text(key, self._data[key], 64, None)
        if value not in allowed:
            raise self._error(f"{key} is {value!r}, not one of {', '.join(allowed)}")
        return value

    def items(self, key: str, count: int) -> list[object]:
        """A list with at most `count` items."""
        value = self._data[key]
        if not isinstance(value, list):
            raise self._error(f"{key} is not a list")
        if len(value) > count:
            raise self._error(f"{key} has more than {count} items")
        return value

    def _integer(self, key: str, value: object, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._error(f"{key} is not an integer")
        if not low <= value <= high:
            raise self._error(f"{key} is out of bounds")
        return value

    def _text(
        self, key: str, value: object, limit_bytes: int, pattern: re.Pattern[str] | None
    ) -> str:
        if not isinstance(value, str):
            raise self._error(f"{key} is not a string")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise self._error(f"{key} is not valid Unicode") from None
        if size > limit_bytes:
            raise self._error(f"{key} is longer than {limit_bytes} bytes")
        if pattern is not None and not pattern.fullmatch(value):
            raise self._error(f"{key} is malformed: {value[:80]!r}")
        return value

    def _error(self, message: str) -> BundleError:
        where = "" if self._where == "manifest" else f"{self._where}: "
        return BundleError(f"manifest: {where}{message}")
