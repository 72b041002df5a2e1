from __future__ import annotations

import os

import pytest

from asmevo.capture.control_block import MAX_GLOB_BYTES, MAX_GLOBS, encode_globs
from asmevo.errors import UsageError


def test_globs_within_the_limits_are_encoded_as_given() -> None:
    longest = "a" * (MAX_GLOB_BYTES - 1)

    assert encode_globs((longest, os.fsdecode(b"\xff*"))) == [longest.encode(), b"\xff*"]


@pytest.mark.parametrize("globs", [("",), ("a" * MAX_GLOB_BYTES,), ("*",) * (MAX_GLOBS + 1)])
def test_globs_beyond_the_limits_are_a_usage_error(globs: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        encode_globs(globs)
