"""Atomic operations of the emulated device in every encoding, on pairs of edge values.

The references follow the pseudocode of the CDNA3 and CDNA4 ISA guides. They take the memory's value
and the two data operands as unsigned integers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from float_reference import F16, F32, F64, Format, add
from kernel_runner import Array, KernelOptions, run_kernel

Reference = Callable[[int, int, int], int]

SIDE = 16  # edge values of each kind; a kernel's 256 lanes take all pairs

BF16 = Format(width=16, mantissa_bits=7, bias=127)
INTEGERS_32 = [0, 1, 2, 3, 0x7F, 0x80, 0xFFFF, 0x10000, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000]
INTEGERS_32 += [0x80000001, 0xAAAAAAAA, 0x12345678, 0xFFFFFFFE, 0xFFFFFFFF]
INTEGERS_64 = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFF00000000]
INTEGERS_64 += [0x8000000080000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0x8000000000000001]
INTEGERS_64 += [0xAAAAAAAA55555555, 0x123456789ABCDEF0, 0xFFFFFFFF00000000, 2**64 - 2, 2**64 - 1]
INTEGERS = {32: INTEGERS_32, 64: INTEGERS_64}


def float_edges(exponent_bits: int, mantissa_bits: int) -> list[int]:
    """Zero, denormals, normals, the largest number, infinity and NaN, with either sign."""
    one = ((1 << exponent_bits - 1) - 1) << mantissa_bits
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    quiet = infinity | 1 << mantissa_bits - 1
    positive = [0, 1, (1 << mantissa_bits) - 1, one, one | 1, infinity - 1, infinity, quiet]
    return positive + [value | 1 << exponent_bits + mantissa_bits for value in positive]


FLOATS = {
    "f16": float_edges(5, 10),
    "bf16": float_edges(8, 7),
    "f32": float_edges(8, 23),
    "f64": float_edges(11, 52),
}
FORMATS: dict[str, Format] = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def number(value: int, kind: str) -> float:
    if kind == "f64":
        return float(np.uint64(value).view(np.float64))
    return float(np.uint32(value).view(np.float32))


def integer_references(bits: int) -> dict[str, Reference]:
    mask = (1 << bits) - 1
    return {
        "add": lambda old, data, _: old + data & mask,
        "sub": lambda old, data, _: old - data & mask,
        "rsub": lambda old, data, _: data - old & mask,
        "inc": lambda old, data, _: 0 if old >= data else old + 1,
        "dec": lambda old, data, _: data if old == 0 or old > data else old - 1,
        "umin": lambda old, data, _: min(old, data),
        "umax": lambda old, data, _: max(old, data),
        "smin": lambda old, data, _: min(old, data, key=lambda value: signed(value, bits)),
        "smax": lambda old, data, _: max(old, data, key=lambda value: signed(value, bits)),
        "and": lambda old, data, _: old & data,
        "or": lambda old, data, _: old | data,
        "xor": lambda old, data, _: old ^ data,
        "swap": lambda old, data, _: data,
        "mskor": lambda old, data, data2: old & ~data | data2,
        "cmpst": lambda old, data, data2: data2 if old == data else old,
        "cmpswap": lambda old, data, data2: data if old == data2 else old,
        "wrap": lambda old, data, data2: old - data if old >= data else old + data2 & mask,
    }


def float_add(kind: str, a: int, b: int) -> int:
    form = FORMATS[kind]
    opposite = form.is_infinite(a) and form.is_infinite(b) and a != b
    if form.is_nan(a) or form.is_nan(b) or opposite:
        return FLOATS[kind][7]
    return add(form, a, b)


def float_references(kind: str) -> dict[str, Reference]:
    form = FORMATS[kind]

    def extreme(choose: Callable[[int, int], bool]) -> Reference:
        """A number wins over NaN (LLVM's minnum and maxnum); of two zeros memory's stays (ISA)."""

        def reference(old: int, data: int, _: int) -> int:
            if form.is_nan(old) or form.is_nan(data):
                return data if form.is_nan(old) else old
            return data if choose(data, old) else old

        return reference

    def compare_and_store(old: int, data: int, data2: int) -> int:
        return data2 if number(old, kind) == number(data, kind) else old

    return {
        "add": lambda old, data, _: float_add(kind, old, data),
        "min": extreme(lambda data, old: number(data, kind) < number(old, kind)),
        "max": extreme(lambda data, old: number(data, kind) > number(old, kind)),
        "cmpst": compare_and_store,
    }


def packed_add(kind: str) -> Reference:
    def reference(old: int, data: int, _: int) -> int:
        low = float_add(kind, old & 0xFFFF, data & 0xFFFF)
        return float_add(kind, old >> 16, data >> 16) << 16 | low

    return reference


def conditional_exchange(old: int, data: int, _: int) -> int:
    halves = []
    for shift in (0, 32):
        new = data >> shift & 0xFFFFFFFF
        halves.append(new & 0x7FFFFFFF if new >> 31 else old >> shift & 0xFFFFFFFF)
    return halves[1] << 32 | halves[0]


def operands(name: str, kind: str, bits: int) -> tuple[Array, Array, Array]:
    """Memory and first operand in all pairs of edge values, and a second operand."""
    if kind in ("f16", "bf16"):
        halves = FLOATS[kind]
        values = [halves[-i - 1] << 16 | half for i, half in enumerate(halves)]
    else:
        values = FLOATS[kind] if kind else INTEGERS[bits]
    dtype = np.uint64 if bits == 64 else np.uint32
    table = np.array(values, dtype)
    assert len(table) == SIDE
    column = np.arange(SIDE * SIDE)
    old, data = table[column // SIDE], table[column % SIDE]
    return old, data, table[column // SIDE * 3 % SIDE]


def same(got: Array, want: Array, kind: str) -> bool:
    """Equal bits, or NaN where NaN is expected."""
    if not kind:
        return np.array_equal(got, want)
    width = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[kind]
    parts = (got.view(f"u{width // 8}"), want.view(f"u{width // 8}"))
    infinity = FLOATS[kind][6]
    nan = [(part & ((1 << width - 1) - 1)) > infinity for part in parts]
    return bool(np.all(np.where(nan[1], nan[0], parts[0] == parts[1])))


DS_NAMES = {"min_u": "umin", "max_u": "umax", "min_i": "smin", "max_i": "smax", "wrxchg_b": "swap"}


def ds_case(name: str) -> tuple[Reference, str, int]:
    """Reference, float format ("" for integers) and width of a DS mnemonic."""
    if name.startswith("pk_add_"):
        kind = name.removeprefix("pk_add_")
        return packed_add(kind), kind, 32
    if name == "condxchg32_b64":
        return conditional_exchange, "", 64
    stem, bits = name[:-2], int(name[-2:])
    operation = DS_NAMES.get(stem, stem.split("_")[0])
    if stem.endswith("_f"):
        return float_references(f"f{bits}")[operation], f"f{bits}", bits
    return integer_references(bits)[operation], "", bits


def memory_case(name: str) -> tuple[Reference, str, int]:
    """Reference, float format and width of a buffer, flat or global atomic."""
    if name.startswith("pk_add_"):
        kind = name.removeprefix("pk_add_")
        return packed_add(kind), kind, 32
    operation, _, suffix = name.partition("_")
    if suffix.startswith("f"):
        return float_references(suffix)[operation], suffix, int(suffix[1:])
    bits = 64 if suffix else 32
    return integer_references(bits)[operation], "", bits


def registers(first: int, dwords: int) -> str:
    return f"v{first}" if dwords == 1 else f"v[{first}:{first + dwords - 1}]"


def run_atomic(
    arch: str, forms: tuple[str, str], values: tuple[Array, Array, Array], *, ds: bool
) -> tuple[Array, Array, Array]:
    """Memory after the form without result, memory after the other one, and what that returned.

    They find the data in v10 …, v12 … and the address in v2 (DS, buffers) and v[4:5] (flat), and
    return in v8 …. LDS is filled and read back.
    """
    size = values[0].nbytes
    dwords = values[0].itemsize // 4
    suffix, bits = ("x2", "b64") if dwords == 2 else ("", "b32")
    old, data, data2, last = (registers(n, dwords) for n in (14, 10, 12, 8))
    fill = drain = ""
    for offset in (0, size) if ds else ():
        fill += f"global_load_dword{suffix} {old}, v2, s[4:5] offset:{offset}\ns_waitcnt vmcnt(0)\n"
        fill += f"ds_write_{bits} v2, {old} offset:{offset}\ns_waitcnt lgkmcnt(0)\n"
        drain += f"ds_read_{bits} {old}, v2 offset:{offset}\ns_waitcnt lgkmcnt(0)\n"
        drain += f"global_store_dword{suffix} v2, {old}, s[4:5] offset:{offset}\ns_nop 2\n"
        drain += "s_waitcnt vmcnt(0)\n"
    body = f"""
      v_lshlrev_b32_e32 v2, {dwords + 1}, v0
      v_mov_b32_e32 v3, s5
      v_add_co_u32_e32 v4, vcc, s4, v2
      s_nop 4
      v_addc_co_u32_e32 v5, vcc, 0, v3, vcc
      s_mov_b32 s12, s4
      s_mov_b32 s13, s5
      s_movk_i32 s14, 0x7fff
      s_mov_b32 s15, 0x00027000
      global_load_dword{suffix} {data}, v2, s[8:9]
      global_load_dword{suffix} {data2}, v2, s[10:11]
      s_waitcnt vmcnt(0)
      {fill}
      {forms[0]} offset:{size}
      s_waitcnt vmcnt(0) lgkmcnt(0)
      {forms[1]}
      s_waitcnt vmcnt(0) lgkmcnt(0)
      global_store_dword{suffix} v2, {last}, s[6:7]
      {drain}
      s_waitcnt vmcnt(0)
    """
    options = KernelOptions(lds=2 * size if ds else 0, block=(SIDE * SIDE, 1, 1))
    buffers = [np.tile(values[0], 2), np.zeros_like(values[0]), *values[1:]]
    memory, returned, *_ = run_kernel(arch, body, buffers, options)
    return memory[SIDE * SIDE :], memory[: SIDE * SIDE], returned


def expected(reference: Reference, values: tuple[Array, Array, Array]) -> Array:
    results = [reference(int(a), int(b), int(c)) for a, b, c in zip(*values, strict=True)]
    return np.array(results, values[0].dtype)


DS_ATOMICS = [
    f"{operation}_{kind}{bits}"
    for operations, kind in [
        (("add", "sub", "rsub", "inc", "dec", "min", "max"), "u"),
        (("min", "max"), "i"),
        (("and", "or", "xor", "mskor", "cmpst", "wrxchg"), "b"),
        (("add", "min", "max", "cmpst"), "f"),
    ]
    for operation in operations
    for bits in (32, 64)
]
DS_ATOMICS += ["wrap_b32", "condxchg32_b64", "pk_add_f16", "pk_add_bf16"]
ONLY_RETURNING = ("wrxchg", "wrap", "condxchg32")


@pytest.mark.parametrize("name", DS_ATOMICS)
def test_ds_atomic_follows_the_isa(name: str) -> None:
    reference, kind, bits = ds_case(name)
    values = operands(name, kind, bits)
    data, data2, last, other = (registers(n, bits // 32) for n in (10, 12, 8, 16))
    arguments = f"v2, {data}"
    if name.startswith(("mskor", "cmpst", "wrap")):
        arguments += f", {data2}"
    operation, _, suffix = name.rpartition("_")
    plain = f"ds_{name} {arguments}"
    if name.startswith(ONLY_RETURNING):
        plain = f"ds_{operation}_rtn_{suffix} {other}, {arguments}"
    returning = f"ds_{operation}_rtn_{suffix} {last}, {arguments}"

    first, second, returned = run_atomic("gfx942", (plain, returning), values, ds=True)

    want = expected(reference, values)
    assert same(first, want, kind)
    assert same(second, want, kind)
    assert np.array_equal(returned, values[0])


INTEGER_ATOMICS = ["add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec"]
INTEGER_ATOMICS += ["swap", "cmpswap"]
MEMORY_ATOMICS = [name + suffix for name in INTEGER_ATOMICS for suffix in ("", "_x2")]
MEMORY_ATOMICS += ["add_f32", "add_f64", "min_f64", "max_f64", "pk_add_f16", "pk_add_bf16"]


@pytest.mark.parametrize("name", MEMORY_ATOMICS)
def test_memory_atomic_follows_the_isa(name: str) -> None:
    reference, kind, bits = memory_case(name)
    values = operands(name, kind, bits)
    dwords = bits // 32
    data, last = registers(10, dwords), registers(8, dwords)
    setup = ""
    if name.startswith("cmpswap"):
        data = registers(10, 2 * dwords)
        setup = "v_mov_b32_e32 v11, v12\n" if dwords == 1 else ""
    want = expected(reference, values)

    for encoding in ("buffer", "flat", "global"):
        if encoding == "buffer":
            # Returns in the data's registers.
            plain = f"buffer_atomic_{name} {data}, v2, s[12:15], 0 offen"
            returning = plain + " sc0\ns_waitcnt vmcnt(0)"
            returning += "".join(f"\nv_mov_b32_e32 v{8 + i}, v{10 + i}" for i in range(dwords))
        else:
            address, base = ("v[4:5]", "") if encoding == "flat" else ("v2", ", s[4:5]")
            plain = f"{encoding}_atomic_{name} {address}, {data}{base}"
            returning = f"{encoding}_atomic_{name} {last}, {address}, {data}{base} sc0"
        arch = "gfx950" if (encoding, name) == ("buffer", "pk_add_bf16") else "gfx942"

        first, second, returned = run_atomic(arch, (setup + plain, returning), values, ds=False)

        assert same(first, want, kind), encoding
        assert same(second, want, kind), encoding
        assert np.array_equal(returned, values[0]), encoding


def run_slots(code: str, width: int, lds: Array, data: Array, data2: Array) -> tuple[Array, Array]:
    """LDS and v[20:23] of 64 lanes after `code`; data in v10 … and v12 …, v2 = width * lane."""
    dwords = width // 4
    suffix = "x2" if dwords == 2 else ""
    copies = lds.nbytes // 256
    fill = "\n".join(
        f"global_load_dword v7, v1, s[4:5] offset:{256 * i}\ns_waitcnt vmcnt(0)\n"
        f"ds_write_b32 v1, v7 offset:{256 * i}"
        for i in range(copies)
    )
    drain = "\n".join(
        f"ds_read_b32 v7, v1 offset:{256 * i}\ns_waitcnt lgkmcnt(0)\n"
        f"global_store_dword v1, v7, s[4:5] offset:{256 * i}\ns_waitcnt vmcnt(0)"
        for i in range(copies)
    )
    preset = "\n".join(f"v_mov_b32_e32 v{20 + i}, 0" for i in range(4))
    body = f"""
      v_lshlrev_b32_e32 v1, 2, v0
      v_lshlrev_b32_e32 v2, {dwords + 1}, v0
      v_lshlrev_b32_e32 v3, 4, v0
      global_load_dword{suffix} {registers(10, dwords)}, v2, s[8:9]
      global_load_dword{suffix} {registers(12, dwords)}, v2, s[10:11]
      s_waitcnt vmcnt(0)
      {preset}
      {fill}
      s_waitcnt lgkmcnt(0)
      {code}
      s_waitcnt lgkmcnt(0)
      global_store_dwordx4 v3, v[20:23], s[6:7]
      {drain}
    """
    buffers = [lds, np.zeros((64, 4), np.uint32), data, data2]
    memory, out, *_ = run_kernel("gfx942", body, buffers, KernelOptions(lds=lds.nbytes))
    return memory, out


@pytest.mark.parametrize("st64", [False, True], ids=["", "st64"])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("operation", ["read2", "write2", "wrxchg2"])
def test_ds_two_slots_are_read_and_written(operation: str, bits: int, st64: bool) -> None:
    dtype = np.uint64 if bits == 64 else np.uint32
    random = np.random.default_rng(11)
    lds, data, data2 = (random.integers(0, 1 << bits, n, dtype=dtype) for n in (256, 64, 64))
    offsets = (3, 1) if st64 else (1, 190)
    first, second = (np.arange(64) + offset * (64 if st64 else 1) for offset in offsets)
    dwords = bits // 32
    name = f"ds_{operation}{'st64' if st64 else ''}"
    last = registers(20, 2 * dwords)
    sources = f"v2, {registers(10, dwords)}, {registers(12, dwords)}"
    code = {
        "read2": f"{name}_b{bits} {last}, v2",
        "write2": f"{name}_b{bits} {sources}",
        "wrxchg2": f"{name}_rtn_b{bits} {last}, {sources}",
    }[operation]
    want = lds.copy()
    if operation != "read2":
        want[first], want[second] = data, data2

    memory, out = run_slots(
        f"{code} offset0:{offsets[0]} offset1:{offsets[1]}", bits // 8, lds, data, data2
    )

    assert np.array_equal(memory, want)
    pairs = np.stack([lds[first], lds[second]], 1).view(np.uint32)
    assert np.array_equal(out[:, : 2 * dwords], pairs if operation != "write2" else pairs * 0)


def test_ds_write_addtid_and_high_byte_leave_the_rest() -> None:
    random = np.random.default_rng(12)
    lds, data, data2 = (random.integers(0, 1 << 32, n, dtype=np.uint32) for n in (256, 64, 64))
    code = """
      s_movk_i32 m0, 48
      s_nop 2
      ds_write_addtid_b32 v10 offset:16
      ds_write_b8_d16_hi v2, v12 offset:515
    """

    memory, _ = run_slots(code, 4, lds, data, data2)

    want = lds.copy()
    want[16:80] = data
    want.view(np.uint8)[515 : 515 + 256 : 4] = data2 >> 16 & 0xFF
    assert np.array_equal(memory, want)
