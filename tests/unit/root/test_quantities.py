from __future__ import annotations

import pytest

from asmevo.errors import UsageError
from asmevo.quantities import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("30s", 30), ("500ms", 0.5), ("2m", 120), ("1.5h", 5400)]
)
def test_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("64MiB", 64 << 20), ("2GB", 2 << 30), ("1.5k", 1536)]
)
def test_size_is_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1s", "1 parsec", "nan", "1e9", "0s", "9999999h"])
def test_odd_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "MiB", "-5", "0", "5XB", "99999GB"])
def test_odd_size_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)
