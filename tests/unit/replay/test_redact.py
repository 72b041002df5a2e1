"""Synthetic contents of bundles."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.capture.manifest import AddressRange
from asmevo.capture.touched import Touched
from asmevo.errors import CaptureError
from asmevo.replay.redact import Redactor, find_type

RNG = np.random.default_rng(4)


class Tracer:
    """Executes nothing; `judge` says what comes of a content of the second region."""

    def __init__(self, judge: Callable[[bytes], str] = lambda _: "") -> None:
        self.judge = judge

    def trace(self, bundle: Path, absent: Sequence[AddressRange]) -> Touched:
        assert not absent
        with open_bundle(bundle) as opened:
            content = opened.region_bytes(opened.manifest.regions[1], Moment.BEFORE)
        return Touched(problem=self.judge(content))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.zeros(64, np.float32), "int32"),
        (RNG.normal(size=512).astype(np.float32), "float32"),
        (RNG.normal(size=512).astype(np.float16), "half"),
        ((RNG.normal(size=512).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), "half"),
        (np.arange(512, dtype=np.int32), "int32"),
        (np.arange(-256, 256, dtype=np.int64), "int64"),
        (RNG.integers(0, 256, 2048).astype(np.uint8), "byte"),
    ],
    ids=["zeros", "float32", "float16", "bfloat16", "int32", "int64", "bytes"],
)
def test_type_is_found_by_the_bits(values: np.ndarray[Any, Any], kind: str) -> None:
    assert find_type(values.view(np.uint8)) == kind


def redact(folder: Path, integers: bytes, judge: Callable[[bytes], str]) -> tuple[bytes, bytes]:
    floats = RNG.normal(size=256).astype(np.float32).tobytes()
    source, target = folder / "a.aeb", folder / "b.aeb"
    buffers = [Buffer(address=0x10000, before=floats), Buffer(address=0x20000, before=integers)]
    write_small_bundle(source, kernel="k", code_object=b"", buffers=buffers)

    Redactor(Tracer(judge)).redact(source, target, None)

    with open_bundle(target) as bundle:
        bundle.verify()
        manifest = bundle.manifest
        assert manifest.capture.is_redacted
        first, second = (bundle.region_bytes(r, Moment.BEFORE) for r in manifest.regions)
    old, new = np.frombuffer(floats, np.float32), np.frombuffer(first, np.float32)
    assert not np.any(old == new)
    assert old.min() <= new.min()
    assert new.max() <= old.max()
    assert sorted(path.name for path in folder.iterdir()) == ["a.aeb", "b.aeb"]
    return first, second


INTEGERS = struct.pack("=64i", *range(100, 164))


def test_floats_and_integers_are_drawn_within_their_range(tmp_path: Path) -> None:
    _, second = redact(tmp_path, INTEGERS, lambda _: "")

    drawn = struct.unpack("=64i", second)
    assert second != INTEGERS
    assert all(100 <= value <= 163 for value in drawn)


def test_integers_that_must_all_be_there_are_shuffled(tmp_path: Path) -> None:
    def judge(content: bytes) -> str:
        is_whole = sorted(struct.unpack("=64i", content)) == list(range(100, 164))
        return "" if is_whole else "out of bounds"

    _, second = redact(tmp_path, INTEGERS, judge)

    assert second != INTEGERS
    assert sorted(struct.unpack("=64i", second)) == list(range(100, 164))


def test_integers_that_the_kernel_needs_stay(tmp_path: Path) -> None:
    _, second = redact(tmp_path, INTEGERS, lambda c: "" if c == INTEGERS else "out of bounds")

    assert second == INTEGERS


def test_dispatch_that_cannot_be_executed_is_not_redacted(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be redacted: unknown instruction"):
        redact(tmp_path, INTEGERS, lambda _: "unknown instruction")

    assert not (tmp_path / "b.aeb").exists()
