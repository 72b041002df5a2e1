"""Durations and sizes as people write them on a command line."""

from __future__ import annotations

import re

from asmevo.errors import UsageError

__all__ = ["parse_duration", "parse_size"]

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_MAX_SECONDS = 30 * 86400.0
_BYTES = {
    "": 1,
    "b": 1,
    **{
        f"{unit}{end}": 1 << 10 * power
        for power, unit in enumerate("kmgt", start=1)
        for end in ("", "b", "ib")
    },
}
_MAX_BYTES = 1 << 42
_QUANTITY = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]*)", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds of `30`, `30s`, `500ms`, `2m`, `1h`.

    Raises:
        UsageError: It is none of these, or not between 10 ms and 30 days.
    """
    number, unit = _split(text, "a duration such as 30s or 2m")
    seconds = number * _SECONDS.get(unit, 0.0)
    if unit not in _SECONDS or not 0.01 <= seconds <= _MAX_SECONDS:
        raise UsageError(f"{text[:40]!r} is no duration such as 30s or 2m")
    return seconds


def parse_size(text: str) -> int:
    """Bytes of `4096`, `64MiB`, `2GB`; every unit is a power of 1024.

    Raises:
        UsageError: It is none of these, or not between a byte and 4 TiB.
    """
    number, unit = _split(text, "a size such as 64MiB or 2GiB")
    size = int(number * _BYTES.get(unit, 0))
    if unit not in _BYTES or not 1 <= size <= _MAX_BYTES:
        raise UsageError(f"{text[:40]!r} is no size such as 64MiB or 2GiB")
    return size


def _split(text: str, wanted: str) -> tuple[float, str]:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text[:40]!r} is not {wanted}")
    return float(found[1]), found[2].lower()
