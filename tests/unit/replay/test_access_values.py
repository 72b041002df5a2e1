"""Narrow, D16, formatted and to-LDS accesses of buffer, FLAT, GLOBAL and SCRATCH, by value.

Expected values follow the CDNA3 ISA: D16 loads keep the other half of a register, D16 formats are
packed two to a register, loads to LDS write a dword to LDS at M0 + offset + 4 * lane.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from kernel_runner import Array, KernelOptions, run_kernel

LANES = 64
KINDS = ("buffer", "flat", "scratch")
IDENTITY_SELECT = 0xFAC
RAW = 0x00027000
ADD_TID = 1 << 23
EXEC = 0x8000_FFFF_0F0F_3335
ACTIVE = np.array([EXEC >> lane & 1 for lane in range(LANES)], bool)
EDGES = np.array(
    [0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x80007FFF, 0x00800001, 0xFF7F0180, 0x8001FFFE],
    np.uint32,
)


def words(count: int, seed: int) -> Array:
    """Edge values, then random ones."""
    values = np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32)
    values[: len(EDGES)] = EDGES
    return values


def lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)


def frame(num_records: int, word3: int = RAW, stride: int = 0) -> str:
    """v2 = 4 * lane, v[4:5] = first buffer + 4 * lane, s[12:15] = the first buffer's descriptor."""
    return f"""
      s_mov_b32 s12, s4
      s_or_b32 s13, s5, {stride << 16:#x}
      s_mov_b32 s14, {num_records:#x}
      s_mov_b32 s15, {word3:#x}
      v_lshlrev_b32_e32 v2, 2, v0
      v_add_co_u32_e32 v4, vcc, s4, v2
      v_mov_b32_e32 v5, s5
      v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
    """


def store_registers(count: int, first: int = 8, buffer: str = "s[6:7]") -> str:
    lines = [f"v_mul_u32_u24_e32 v1, {4 * count}, v0"]
    lines += [
        f"global_store_dword v1, v{first + index}, {buffer} offset:{4 * index}"
        for index in range(count)
    ]
    return "\n".join([*lines, "s_waitcnt vmcnt(0)"])


def address(kind: str, offset: int) -> str:
    """The operands after the data of a load, or around it of a store (`{}`)."""
    return {
        "buffer": f"{{}}, v2, s[12:15], 0 offen offset:{offset}",
        "flat": f"v[4:5], {{}} offset:{offset}",
        "scratch": f"off, {{}}, off offset:{offset}",
    }[kind]


def load(kind: str, suffix: str, register: str, offset: int) -> str:
    operands = address(kind, offset)
    if kind != "buffer":
        first, rest = operands.split(", {}")
        operands = f"{{}}, {first}{rest}"
    return f"{kind}_load_{suffix} {operands.format(register)}"


def store(kind: str, suffix: str, register: str, offset: int) -> str:
    return f"{kind}_store_{suffix} {address(kind, offset).format(register)}"


WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)"
NARROW_LOADS = {
    "ubyte": np.uint8, "sbyte": np.int8, "ushort": np.uint16, "sshort": np.int16,
    "ubyte_d16": np.uint8, "ubyte_d16_hi": np.uint8, "sbyte_d16": np.int8,
    "sbyte_d16_hi": np.int8, "short_d16": np.uint16, "short_d16_hi": np.uint16,
}  # fmt: skip


def element(data: Array, dtype: type, offset: int) -> Array:
    """The element at byte `offset` of each dword, as the low 32 bits of its extension."""
    size = np.dtype(dtype).itemsize
    part = data.view(np.uint8).reshape(-1, 4)[:, offset : offset + size]
    wide = np.ascontiguousarray(part).view(dtype)[:, 0].astype(np.int64)
    return (wide & 0xFFFFFFFF).astype(np.uint32)


@pytest.mark.parametrize("suffix", NARROW_LOADS)
@pytest.mark.parametrize("kind", KINDS)
def test_narrow_load_extends_or_keeps_the_other_half(kind: str, suffix: str) -> None:
    dtype = NARROW_LOADS[suffix]
    offsets = range(0, 4, np.dtype(dtype).itemsize)
    count = len(offsets)
    data = words(LANES, 1)
    old = np.uint32(0xA5C30F96)
    body = f"""
      {frame(data.nbytes)}
      global_load_dword v3, v2, s[4:5]
      {lines(f"v_mov_b32_e32 v{8 + i}, {old:#x}" for i in range(count))}
      s_waitcnt vmcnt(0)
      scratch_store_dword off, v3, off offset:0
      s_waitcnt vmcnt(0)
      {lines(load(kind, suffix, f"v{8 + i}", n) for i, n in enumerate(offsets))}
      {WAIT}
      {store_registers(count)}
    """

    _, out = run_kernel(
        "gfx942", body, [data, np.zeros((LANES, count), np.uint32)], KernelOptions(scratch=16)
    )

    for i, offset in enumerate(offsets):
        value = element(data, dtype, offset)
        if suffix.endswith("d16_hi"):
            value = value << 16 | old & 0xFFFF
        elif suffix.endswith("d16"):
            value = value & 0xFFFF | old & 0xFFFF0000
        assert np.array_equal(out[:, i], value), offset


@pytest.mark.parametrize(
    ("suffix", "size", "shift"),
    [("byte", 1, 0), ("byte_d16_hi", 1, 16), ("short", 2, 0), ("short_d16_hi", 2, 16)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_narrow_store_leaves_its_neighbours(kind: str, suffix: str, size: int, shift: int) -> None:
    memory, value = words(LANES, 2)[::-1].copy(), words(LANES, 3)
    offset = 3 if size == 1 else 2
    private = "scratch_load_dword v3, off, off" if kind == "scratch" else ""
    body = f"""
      {frame(memory.nbytes)}
      global_load_dword v3, v2, s[4:5]
      global_load_dword v8, v2, s[6:7]
      s_waitcnt vmcnt(0)
      scratch_store_dword off, v3, off
      s_waitcnt vmcnt(0)
      {store(kind, suffix, "v8", offset)}
      {WAIT}
      global_load_dword v3, v2, s[4:5]
      {private}
      s_waitcnt vmcnt(0)
      {store_registers(1, 3, "s[8:9]")}
    """

    *_, out = run_kernel(
        "gfx942", body, [memory, value, np.zeros_like(memory)], KernelOptions(scratch=16)
    )

    expected = memory.copy().view(np.uint8).reshape(LANES, 4)
    stored = (value >> np.uint32(shift)).view(np.uint8).reshape(LANES, 4)
    expected[:, offset : offset + size] = stored[:, :size]
    assert np.array_equal(out, expected.view(np.uint32)[:, 0])


@pytest.mark.parametrize("count", [3, 4])
def test_flat_store_wide_writes_consecutive_dwords(count: int) -> None:
    data, memory = words(LANES * 4, 4).reshape(LANES, 4), words(LANES * 4, 5).reshape(LANES, 4)
    body = f"""
      {frame(memory.nbytes)}
      v_lshlrev_b32_e32 v2, 4, v0
      global_load_dwordx4 v[8:11], v2, s[6:7]
      v_add_co_u32_e32 v4, vcc, s4, v2
      v_mov_b32_e32 v5, s5
      v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
      s_waitcnt vmcnt(0)
      flat_store_dwordx{count} v[4:5], v[8:{7 + count}] offset:{16 - 4 * count}
      {WAIT}
    """

    out, _ = run_kernel("gfx942", body, [memory, data])

    expected = memory.copy()
    expected[:, 4 - count :] = data[:, :count]
    assert np.array_equal(out, expected)


def test_scratch_store_dwordx2_and_load_dwordx3_use_consecutive_dwords() -> None:
    data = words(LANES * 4, 6).reshape(LANES, 4)
    body = f"""
      v_lshlrev_b32_e32 v2, 4, v0
      global_load_dwordx4 v[12:15], v2, s[4:5]
      s_waitcnt vmcnt(0)
      scratch_store_dwordx2 off, v[12:13], off offset:4
      scratch_store_dwordx2 off, v[14:15], off offset:12
      v_mov_b32_e32 v11, 7
      s_waitcnt vmcnt(0)
      scratch_load_dwordx3 v[8:10], off, off offset:8
      s_waitcnt vmcnt(0)
      {store_registers(4)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros_like(data)], KernelOptions(scratch=32))

    assert np.array_equal(out[:, :3], data[:, 1:])
    assert (out[:, 3] == 7).all()


@pytest.mark.parametrize("suffix", ["ubyte", "sbyte", "ushort", "sshort", "dword"])
@pytest.mark.parametrize("kind", ["global", "scratch"])
def test_load_lds_narrow_writes_a_dword_for_each_active_lane(kind: str, suffix: str) -> None:
    data = words(LANES + 1, 7)
    operands = "v2, s[4:5]" if kind == "global" else "off, off"
    body = f"""
      {frame(data.nbytes)}
      v_mov_b32_e32 v6, 0x77
      ds_write_b32 v2, v6 offset:12
      global_load_dword v3, v2, s[4:5] offset:4
      s_waitcnt vmcnt(0) lgkmcnt(0)
      scratch_store_dword off, v3, off offset:4
      s_mov_b32 m0, 8
      s_mov_b32 exec_lo, {EXEC & 0xFFFFFFFF:#x}
      s_mov_b32 exec_hi, {EXEC >> 32:#x}
      s_waitcnt vmcnt(0)
      {kind}_load_lds_{suffix} {operands} offset:4
      s_waitcnt vmcnt(0)
      s_mov_b64 exec, -1
      ds_read_b32 v8, v2 offset:12
      s_waitcnt lgkmcnt(0)
      {store_registers(1)}
    """

    _, out = run_kernel(
        "gfx942",
        body,
        [data, np.zeros(LANES, np.uint32)],
        KernelOptions(lds=512, scratch=16),
    )

    dtype = {**NARROW_LOADS, "dword": np.uint32}[suffix]
    assert np.array_equal(out, np.where(ACTIVE, element(data, dtype, 0)[1:], 0x77))


def test_global_load_lds_dwordx3_writes_12_bytes_a_lane() -> None:
    data = words(LANES * 3, 8).reshape(LANES, 3)
    body = f"""
      v_mul_u32_u24_e32 v2, 12, v0
      s_mov_b32 m0, 16
      s_nop 0
      global_load_lds_dwordx3 v2, s[4:5]
      s_waitcnt vmcnt(0)
      {lines(f"ds_read_b32 v{8 + i}, v2 offset:{16 + 4 * i}" for i in range(3))}
      s_waitcnt lgkmcnt(0)
      {store_registers(3)}
    """

    _, out = run_kernel("gfx950", body, [data, np.zeros_like(data)], KernelOptions(lds=1024))

    assert np.array_equal(out, data)


def test_buffer_store_lds_dword_stores_the_lanes_dwords() -> None:
    data, memory = words(LANES, 9), words(2 * LANES, 10)[::-1].copy()
    body = f"""
      {frame(LANES, word3=ADD_TID, stride=8)}
      global_load_dword v3, v2, s[6:7]
      s_waitcnt vmcnt(0)
      ds_write_b32 v2, v3 offset:12
      s_mov_b32 m0, 8
      s_mov_b32 s9, 0
      s_waitcnt lgkmcnt(0)
      buffer_store_lds_dword s[12:15], s9 offset:4 lds
      s_waitcnt vmcnt(0)
    """

    out, _ = run_kernel("gfx90a", body, [memory, data], KernelOptions(lds=512))

    memory[1::2] = data
    assert np.array_equal(out, memory)


# Uniform formats: (bits of a component, components) to the data format's number and name.
SHAPES = {
    (8, 1): (1, "8"), (16, 1): (2, "16"), (8, 2): (3, "8_8"), (32, 1): (4, "32"),
    (16, 2): (5, "16_16"), (8, 4): (10, "8_8_8_8"), (32, 2): (11, "32_32"),
    (16, 4): (12, "16_16_16_16"), (32, 3): (13, "32_32_32"), (32, 4): (14, "32_32_32_32"),
}  # fmt: skip
NUMBERS = {
    "UNORM": 0, "SNORM": 1, "USCALED": 2, "SSCALED": 3, "UINT": 4, "SINT": 5, "FLOAT": 7,
}  # fmt: skip
Form = tuple[int, int, str]  # bits of a component, components, number format
LOAD_FORMS: list[Form] = [
    (8, 1, "UNORM"), (8, 1, "SINT"), (8, 2, "SNORM"), (8, 4, "UNORM"), (8, 4, "SSCALED"),
    (8, 4, "UINT"), (16, 1, "FLOAT"), (16, 2, "UNORM"), (16, 2, "SINT"), (16, 4, "SNORM"),
    (16, 4, "FLOAT"), (16, 4, "UINT"), (8, 2, "USCALED"),
]  # fmt: skip
LOAD_FORMS_32: list[Form] = [
    (32, 1, "UINT"), (32, 2, "SINT"), (32, 3, "FLOAT"), (32, 4, "FLOAT"), (16, 2, "USCALED"),
]  # fmt: skip
COUNTS = {"x": 1, "xy": 2, "xyz": 3, "xyzw": 4, "d16_x": 1, "d16_xy": 2, "d16_xyz": 3,
          "d16_xyzw": 4, "d16_hi_x": 1}  # fmt: skip
OPERATIONS = [
    (kind, suffix)
    for kind in ("buffer", "tbuffer")
    for suffix in COUNTS
    if (kind, suffix) != ("tbuffer", "d16_hi_x")
]
OLD = 0xA5C30F96


def access(kind: str, operation: str, suffix: str, first: int, form: Form) -> str:
    """A formatted access at v2 with its data in v[first …]; v2 then goes to the next block."""
    bits, components, number = form
    code, name = SHAPES[bits, components]
    count = COUNTS[suffix]
    last = first + (-(-count // 2) if "d16" in suffix else count) - 1
    registers = f"v[{first}:{last}]" if last > first else f"v{first}"
    typed = f" format:[BUF_DATA_FORMAT_{name},BUF_NUM_FORMAT_{number}]" if kind == "tbuffer" else ""
    if kind == "tbuffer":  # which must not heed the descriptor's format
        code, number = SHAPES[32, 4][0], "FLOAT"
    return f"""
      s_mov_b32 s15, {IDENTITY_SELECT | NUMBERS[number] << 12 | code << 15:#x}
      {kind}_{operation}_format_{suffix} {registers}, v2, s[12:15], 0{typed} offen
      v_add_u32_e32 v2, 16 * {LANES}, v2
    """


def place(components: Array, suffix: str) -> Array:
    """The registers of each lane that hold these components (as bits), over OLD."""
    count = COUNTS[suffix]
    out = np.full((LANES, 4), OLD, np.uint32)
    if "d16" not in suffix:
        out[:, :count] = components[:, :count]
        return out
    halves = out.view(np.uint16)
    first = int(suffix == "d16_hi_x")
    halves[:, first : first + count] = components[:, :count]
    return out


def raw_components(data: Array, form: Form, signed: bool) -> Array:
    bits, components, _ = form
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    whole: Array = data.view(dtype).reshape(LANES, -1)[:, :components]
    return whole


def decode(data: Array, form: Form, d16: bool) -> Array:
    """Four components a lane, converted as a load does, as bits."""
    bits, components, number = form
    integer, real = (np.uint16, np.float16) if d16 else (np.uint32, np.float32)
    raw = raw_components(data, form, number in ("SNORM", "SSCALED", "SINT"))
    out = np.zeros((LANES, 4), integer)
    if number in ("UINT", "SINT"):
        out[:, 3] = 1
        out[:, :components] = raw.astype(np.int64).astype(integer)
        return out
    out[:, 3] = np.array(1, real).view(integer)
    wide = raw.view(f"f{bits // 8}") if number == "FLOAT" else raw
    wide = wide.astype(np.float64)
    if number == "UNORM":
        wide = wide / (2**bits - 1)
    elif number == "SNORM":
        wide = np.maximum(wide / (2 ** (bits - 1) - 1), -1)
    out[:, :components] = wide.astype(real).view(integer)
    return out


def load_data(form: Form) -> Array:
    data = words(LANES * 4, 11).reshape(LANES, 4)
    if form[2] == "FLOAT":  # quiet NaNs with the sign and payload that conversions keep
        real, quiet = (np.float16, 0x7E00) if form[0] == 16 else (np.float32, 0x7FC00000)
        values = data.view(real)
        values.view(f"u{form[0] // 8}")[np.isnan(values)] = quiet
        values[-1] = np.inf
        values[-2] = -np.inf
        values[-3] = -0.0
        values[-4] = np.nextafter(real(0), real(1))
    return data


@pytest.mark.parametrize(("kind", "suffix"), OPERATIONS)
def test_format_load_converts_and_fills_components(kind: str, suffix: str) -> None:
    d16 = "d16" in suffix
    forms = LOAD_FORMS + ([] if d16 else LOAD_FORMS_32)
    data = np.stack([load_data(form) for form in forms])
    count = 4 * len(forms)
    body = f"""
      {frame(data.nbytes)}
      v_lshlrev_b32_e32 v2, 4, v0
      {lines(f"v_mov_b32_e32 v{8 + i}, {OLD:#x}" for i in range(count))}
      {lines(access(kind, "load", suffix, 8 + 4 * i, form) for i, form in enumerate(forms))}
      s_waitcnt vmcnt(0)
      {store_registers(count)}
    """

    _, out = run_kernel("gfx942", body, [data, np.zeros((LANES, len(forms), 4), np.uint32)])

    for i, form in enumerate(forms):
        assert np.array_equal(out[:, i], place(decode(data[i], form, d16), suffix)), form


STORE_FORMS: list[Form] = [
    (bits, components, number)
    for bits, components in SHAPES
    for number in ("UNORM", "SNORM", "UINT", "SINT", "FLOAT")
    if (bits < 32 or number not in ("UNORM", "SNORM")) and (bits > 8 or number != "FLOAT")
]
REALS = [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, np.inf, -np.inf, np.nan, 2.0**-24, -(2.0**-24), 65504]


def store_values(form: Form, d16: bool) -> tuple[Array, Array]:
    """Four components a lane: their bits in the registers, and what memory then holds."""
    bits, _, number = form
    rng = np.random.default_rng(12)
    integer, real = (np.uint16, np.float16) if d16 else (np.uint32, np.float32)
    stored_type = f"u{bits // 8}"
    if number in ("UINT", "SINT"):
        width = min(bits, 16) if d16 else bits
        low, high = (0, 1 << width) if number == "UINT" else (-1 << width - 1, 1 << width - 1)
        values = rng.integers(low, high, (LANES, 4), dtype=np.int64)
        values[:4] = np.array([[0], [1], [low], [high - 1]])
        return values.astype(integer), values.astype(stored_type)
    halves = rng.uniform(-1.25, 1.25, (LANES, 4)).astype(np.float16)
    halves[: len(REALS)] = np.array(REALS, np.float16)[:, None]
    source = halves.astype(real)
    if number == "FLOAT":
        return source.view(integer), halves.astype(f"f{bits // 8}").view(stored_type)
    scale = 2**bits - 1 if number == "UNORM" else 2 ** (bits - 1) - 1
    low = 0 if number == "UNORM" else -1
    exact = np.clip(np.nan_to_num(halves.astype(np.float64), nan=0, posinf=2, neginf=-2), low, 1)
    return source.view(integer), np.rint(exact * scale).astype(np.int64).astype(stored_type)


@pytest.mark.parametrize(("kind", "suffix"), OPERATIONS)
def test_format_store_converts_and_leaves_its_neighbours(kind: str, suffix: str) -> None:
    forms = [form for form in STORE_FORMS if form[1] == COUNTS[suffix]]
    memory = words(len(forms) * LANES * 4, 13).reshape(-1, LANES, 4)
    values = [store_values(form, "d16" in suffix) for form in forms]
    registers = np.stack([place(source, suffix) for source, _ in values])
    stores = lines(
        "global_load_dwordx4 v[8:11], v2, s[6:7]\ns_waitcnt vmcnt(0)\n"
        + access(kind, "store", suffix, 8, form)
        for form in forms
    )
    body = f"""
      {frame(memory.nbytes)}
      v_lshlrev_b32_e32 v2, 4, v0
      {stores}
      s_waitcnt vmcnt(0)
    """

    out, _ = run_kernel("gfx942", body, [memory, registers])

    for block, old, (_, stored), form in zip(out, memory, values, forms, strict=True):
        bits, components, _ = form
        old.view(f"u{bits // 8}")[:, :components] = stored[:, :components]
        assert np.array_equal(block, old), form
