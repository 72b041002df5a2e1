"""Handlers of vector instructions for 256 and 512 bits: the same bits, and each in its place."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from emulator_decoder import NO_VOP3, Row, read_rows
from kernel_runner import KernelOptions, run_kernel
from numpy.typing import NDArray

from asmevo.native import emulator_library

LANES = 256
# Special values of f32, of f64 (as high dwords) and of pairs of f16.
EDGES = [0, 1, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF812345, 0x00012345, 0x80345678,
         0x3F800000, 0xBF000000, 0x4F000000, 0xCF000001, 0x5F000000, 0x7FF00000, 0xFFF80000,
         0x3FF00000, 0x41E00000, 0x00080000, 0x7C007E01, 0xFC000001, 0x3C00BC00, 0x03FF8001,
         0x7BFFFBFF, 0x0000FFFF, 0x80008000]  # fmt: skip
# Executed by files that are compiled for one width, refused without certain operands, or writing
# several registers that the frame below does not keep.
NOT_HERE = re.compile(
    r"v_(mfma|smfmac|accvgpr|readlane|readfirstlane|writelane|permlane|swap|nop|clrexcp|cmpx|movrel"
    r"|div_scale|cvt_scale|screen|interp|dot|mqsad|qsad|mad_[ui]64|mbcnt|bitop|.*_co_"
    r"|ashr_pk|prng|cvt_sr|cvt_pk_(f32|fp8|bf8)|cvt_f32_(fp8|bf8))"
)
DWORDS = {"b64": 2, "f64": 2, "pk_f32": 2, "mask": 2}
# Round to nearest even with denormals; to +inf and -inf, denormals flushed, IEEE off.
MODES = (0x2F0, 0x009)


def device_width() -> int:
    return int(ctypes.CDLL(str(emulator_library())).asmevo_emulator_vector_width())


needs_both = pytest.mark.skipif(device_width() < 512, reason="this CPU has no AVX-512")


def vector_operand(kind: str, slot: int) -> str:
    """Sources stand in v[10:11], v[12:13], v[14:15]; a mask in VCC."""
    if kind == "mask":
        return "vcc"
    first = 10 + 2 * slot
    return f"v[{first}:{first + 1}]" if DWORDS.get(kind, 1) == 2 else f"v{first}"


def forms(row: Row) -> Iterator[str]:
    """The operation as assembly text, in its short form and with modifiers."""
    if row.dst[0] == "mask":
        result = "s[40:41]" if row.encoding != "vopc" else "vcc"
    else:
        result = "v[40:41]" if DWORDS.get(row.dst[0], 1) == 2 else "v40"
    sources = [vector_operand(kind, i) for i, kind in enumerate(row.src) if kind != "none"]
    literal = "0x4248" if row.name.endswith("f16") else "0x40490fdb"
    if row.name.startswith(("v_madmk", "v_fmamk")):
        sources[1] = literal
    elif row.name.startswith(("v_madak", "v_fmaak")):
        sources[2] = literal
    yield f"{row.name} {', '.join([result, *sources])}"
    if row.flags & NO_VOP3 or row.encoding in {"vop3p"}:
        return
    suffix = "" if row.encoding == "vop3" else "_e64"
    if row.encoding == "vopc":
        result = "s[40:41]"
    is_float = all(kind in {"f32", "f16", "f64"} for kind in row.src if kind != "none")
    if is_float and sources:
        changed = [f"-|{sources[0]}|", *sources[1:]]
        yield f"{row.name}{suffix} {', '.join([result, *changed])}"
        if row.dst[0] in {"f32", "f16", "f64"}:
            yield f"{row.name}{suffix} {', '.join([result, *sources])} clamp"
    elif row.encoding in {"vop1", "vop2"}:
        yield f"{row.name}{suffix} {', '.join([result, *sources])}"


def operations(arch: str) -> list[str]:
    rows = [
        row
        for row in read_rows()
        if row.encoding in {"vop1", "vop2", "vopc", "vop3", "vop3p"}
        and arch in row.targets
        and not NOT_HERE.match(row.name)
        and not (row.exactness == "missing" and arch in row.inexact_targets)
    ]
    return [text for row in rows for text in forms(row)]


def program(lines: list[str], mode: int) -> str:
    """Every operation on the same sources; keeps v40, v41, VCC and s[40:41] of each."""
    body = ["v_lshlrev_b32 v1, 2, v0", "s_mov_b32 s3, 0x100000"]
    for i in range(8):
        body.append(f"global_load_dword v{10 + i}, v1, s[4:5] offset:{4 * LANES * i % 4096}")
        if i % 4 == 3:
            body.append(f"v_add_u32 v1, {4 * LANES * 4}, v1")
    body += [f"s_mov_b32 s8, {mode:#x}", "s_waitcnt vmcnt(0)", "v_lshlrev_b32 v1, 2, v0"]
    for n, line in enumerate(lines):
        odd = n % 2 == 1
        body += [
            *("v_mov_b32 v40, v16", "v_mov_b32 v41, v17", "s_mov_b64 vcc, 0x6b2f19"),
            *("s_mov_b64 s[40:41], 0", "s_setreg_b32 hwreg(HW_REG_MODE, 0, 10), s8"),
            *(["s_mov_b32 exec_lo, 0x5a3c96f1"] if odd else []),
            *(line, "s_mov_b64 exec, -1", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 10), 0x2f0"),
            *("v_mov_b32 v42, vcc_lo", "v_mov_b32 v43, s41"),
            *("v_xor_b32 v42, s40, v42", "v_xor_b32 v43, vcc_hi, v43"),
            *(f"global_store_dword v1, v4{i}, s[6:7] offset:{4 * LANES * i}" for i in range(4)),
            f"v_add_u32 v1, {16 * LANES}, v1",
        ]
    return "\n".join(body)


def some_words(seed: int) -> NDArray[np.uint32]:
    generator = np.random.default_rng(seed)
    words = generator.integers(0, 1 << 32, 8 * LANES, dtype=np.uint64).astype(np.uint32)
    edges = np.array(EDGES, np.uint32)[generator.integers(0, len(EDGES), 8 * LANES)]
    small = generator.integers(0, 40, 8 * LANES).astype(np.uint32)
    floats = generator.normal(0, 30, 8 * LANES).astype(np.float32).view(np.uint32)
    kind = generator.integers(0, 4, 8 * LANES)
    return np.choose(kind, [words, edges, small, floats]).astype(np.uint32)


@needs_both
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx950"])
def test_vector_operation_at_both_widths_gives_same_bits(arch: str, mode: int) -> None:
    flushes = mode & 0xF0 != 0xF0
    lines = [line for line in operations(arch) if not (flushes and "_mix" in line)]
    assert len(lines) > 500
    body = program(lines, mode)
    data = some_words(mode)
    results = []
    for width in ("256", "512"):
        out = np.zeros((len(lines), 4, LANES), np.uint32)
        options = KernelOptions(
            block=(LANES, 1, 1), environment=(("ASMEVO_EMULATOR_VECTOR_WIDTH", width),)
        )
        results.append(run_kernel(arch, body, [data, out], options)[1])
    differing = [line for line, a, b in zip(lines, *results, strict=True) if (a != b).any()]
    assert not differing
    # The frame works: operations differ from one another.
    assert len({result.tobytes() for result in results[0]}) > len(lines) * 3 // 5


@needs_both
def test_library_holds_wide_code_only_in_its_namespace() -> None:
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(emulator_library())],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needs_avx512 = re.compile(r"%zmm|%[xy]mm(?:1[6-9]|2\d|3[01])\b|%k[0-7]\b")
    counts = {True: 0, False: 0}
    for part in re.split(r"\n(?=[0-9a-f]+ <)", listing):
        counts["4v512" in part.partition("\n")[0]] += bool(needs_avx512.search(part))
    assert counts[False] == 0
    assert counts[True] > 100


@pytest.mark.parametrize(
    ("asked", "expected", "says"),
    [("256", 256, ""), ("", None, ""), ("128", None, "256 and 512 are possible")],
)
def test_vector_width_from_environment_is_obeyed_or_refused(
    asked: str, expected: int | None, says: str
) -> None:
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).asmevo_emulator_vector_width())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(emulator_library())],
        env={**os.environ, "ASMEVO_EMULATOR_VECTOR_WIDTH": asked},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == (expected or device_width())
    assert says in done.stderr
    assert bool(says) == bool(done.stderr)
