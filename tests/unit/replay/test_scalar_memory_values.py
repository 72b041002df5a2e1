"""Values of scalar memory operations, of register indexing and of the scalar unit's no-ops.

The expected values follow the CDNA3 ISA document; buffer sizes count as it and Mesa's GFX9 say:
bytes without a stride, else records of the stride, each dword checked on its own.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

import pytest
from emulator_kernel import run_kernel
from scalar_cases import MASK32, START, WIDE, WORDS, load, register, signed

DATA = [random.Random(7).getrandbits(32) for _ in range(64)]
DATA[:8] = [0, MASK32, 0x80000000, 0x7FC00000, 0x7F800000, 1, 0x007FFFFF, 0x7FFFFFFF]
INPUT = struct.pack("<64I", *DATA)
FILL = 0xDEADBEEF

Model = Callable[[int, int, int], int]  # the old value, the operand, the width: the new value
ATOMICS: dict[str, Model] = {
    "swap": lambda old, data, bits: data,
    "add": lambda old, data, bits: old + data,
    "sub": lambda old, data, bits: old - data,
    "smin": lambda old, data, bits: min(signed(old, bits), signed(data, bits)),
    "umin": lambda old, data, bits: min(old, data),
    "smax": lambda old, data, bits: max(signed(old, bits), signed(data, bits)),
    "umax": lambda old, data, bits: max(old, data),
    "and": lambda old, data, bits: old & data,
    "or": lambda old, data, bits: old | data,
    "xor": lambda old, data, bits: old ^ data,
    "inc": lambda old, data, bits: 0 if old >= data else old + 1,
    "dec": lambda old, data, bits: data if old == 0 or old > data else old - 1,
}


def span(first: int, count: int) -> str:
    return f"s{first}" if count == 1 else f"s[{first}:{first + count - 1}]"


def descriptor(first: int, records: int, *, base: int, stride: int = 0) -> list[str]:
    """A buffer of the address in the pair at `base`."""
    return [
        f"  s_mov_b32 s{first}, s{base}",
        f"  s_and_b32 s{first + 1}, s{base + 1}, 0xffff",
        f"  s_or_b32 s{first + 1}, s{first + 1}, {stride << 16:#x}",
        f"  s_mov_b32 s{first + 2}, {records:#x}",
        f"  s_mov_b32 s{first + 3}, 0x27000",
    ]


def run(lines: Sequence[str], words: int, *, end: str = "s_endpgm") -> list[int]:
    """Run the lines with s[4:5] the output and s[6:7] the input."""
    start = [START, "  s_load_dwordx2 s[6:7], s[0:1], 0x8", "  s_waitcnt lgkmcnt(0)"]
    body = "\n".join([*start, *lines, f"  {end}"])
    outcome = run_kernel(body, data=INPUT, output_bytes=4 * words)
    assert outcome.ok, outcome.report
    return outcome.words()


def store(first: int, count: int, at: int) -> list[str]:
    return [
        f"  s_store_dword s{first + index}, s[4:5], {4 * (at + index):#x}" for index in range(count)
    ]


WAIT = "  s_waitcnt lgkmcnt(0)"


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("form", ["s_atomic", "s_buffer_atomic"])
def test_atomic_gives_the_old_and_stores_the_new_value(form: str, bits: int) -> None:
    mask = (1 << bits) - 1
    numbers = WORDS[:6] if bits == 32 else WIDE[:6]
    cases = [
        (name, old, [data], model(old, data, bits) & mask)
        for name, model in ATOMICS.items()
        for old in numbers
        for data in numbers
    ]
    cases += [
        ("cmpswap", old, [data, old ^ flip], old if flip else data)
        for old in numbers
        for data in numbers[:3]
        for flip in (0, 1, 1 << (bits - 1))
    ]
    size, suffix = bits // 32, "" if bits == 32 else "_x2"
    words = 5 * len(cases)  # value, what the atomic gave
    address = "s[4:5]" if form == "s_atomic" else "s[40:43]"
    lines = descriptor(40, 4 * words, base=4)
    for slot, (name, old, data, _) in enumerate(cases):
        at = 5 * slot
        lines += [*load(16, bits, old), *store(16, size, at), WAIT]
        for index, value in enumerate(data):
            lines += load(8 + index * size, bits, value)
        glc = " glc" if slot % 4 != 3 else ""
        lines.append(
            f"  {form}_{name}{suffix} {span(8, size * len(data))}, {address}, {4 * at:#x}{glc}"
        )
        lines += [WAIT, *store(8, size, at + 2), WAIT]

    result = run(lines, words)

    wrong = []
    for slot, (name, old, data, new) in enumerate(cases):
        got = [
            result[at] | (result[at + 1] << 32 if bits == 64 else 0)
            for at in (5 * slot, 5 * slot + 2)
        ]
        wanted = [new, old if slot % 4 != 3 else data[0]]
        if got != wanted:
            wrong.append(f"{name} {old:#x} {data}: got {got}, wanted {wanted}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("records", [8, 256])
def test_buffer_atomic_beyond_the_buffer_changes_nothing(records: int) -> None:
    lines = [*descriptor(40, records, base=4), f"  s_mov_b32 s20, {FILL:#x}"]
    names = [*ATOMICS, "cmpswap"]
    for slot, name in enumerate(names):
        at, two = 2 + 3 * slot, name == "cmpswap"
        lines += [store(20, 1, at + index)[0] for index in range(3)] + [WAIT]
        # Of these values one at least changes the word, whatever the operation.
        for value in (0x11111111, 0xFFFFFFF1, 0x80000001):
            for size, suffix, place in ((1, "", at), (2, "_x2", at + 1)):
                compared = [FILL] * (size if two else 0)
                for index, word in enumerate([*[value] * size, *compared]):
                    lines += load(8 + index, 32, word)
                data = span(8, size + len(compared))
                lines += [
                    f"  s_buffer_atomic_{name}{suffix} {data}, s[40:43], {4 * place:#x}",
                    WAIT,
                ]

    result = run(lines, 2 + 3 * len(names))[2:]

    for slot, name in enumerate(names):
        words = result[3 * slot : 3 * slot + 3]
        if records == 8:
            assert words == [FILL] * 3, name
        else:  # or the case would show nothing
            assert words[0] != FILL and words[1:] != [FILL] * 2, name


# operation, words, offset operand, first word wanted (the base is word 16 of the input)
LOADS = [
    (f"s_load_dword{suffix}", count, offset, first)
    for suffix, count in (("x8", 8), ("x16", 16))
    for offset, first in zip(
        ("0x0", "0x4", "-0x40", "s24", "s24 offset:0x8"), (16, 17, 0, 19, 21), strict=True
    )
]


def test_loads_give_the_words_at_the_offset() -> None:
    lines = ["  s_add_u32 s6, s6, 64", "  s_addc_u32 s7, s7, 0", "  s_mov_b32 s24, 12"]
    for slot, (name, count, offset, _) in enumerate(LOADS):
        lines += [f"  {name} {span(28, count)}, s[6:7], {offset}", WAIT]
        lines += [*store(28, count, 16 * slot), WAIT]

    result = run(lines, 16 * len(LOADS))

    for slot, (name, count, offset, first) in enumerate(LOADS):
        got = result[16 * slot : 16 * slot + count]
        assert got == DATA[first : first + count], f"{name} {offset}"


BUFFER_LOADS = [
    (f"s_buffer_load_dword{'' if count == 1 else f'x{count}'}", count, records, stride, offset)
    for count in (1, 2, 8, 16)
    for records, stride in ((256, 0), (44, 0), (4, 0), (0, 0), (3, 16), (11, 4), (1, 8))
    for offset in (0, 4, 8, 40, 44, 48, 0x10000)
]


@pytest.mark.parametrize("in_register", [False, True])
def test_buffer_loads_give_zero_beyond_the_buffer(in_register: bool) -> None:
    lines = []
    for slot, (name, count, records, stride, offset) in enumerate(BUFFER_LOADS):
        lines += descriptor(8, records, base=6, stride=stride)
        lines += [f"  s_mov_b32 s{28 + index}, {FILL:#x}" for index in range(count)]
        lines.append(f"  s_mov_b32 s24, {offset:#x}")
        operand = "s24" if in_register else f"{offset:#x}"
        lines += [f"  {name} {span(28, count)}, s[8:11], {operand}", WAIT]
        lines += [*store(28, count, 16 * slot), WAIT]

    result = run(lines, 16 * len(BUFFER_LOADS))

    for slot, (name, count, records, stride, offset) in enumerate(BUFFER_LOADS):
        size = records * (stride or 1)
        wanted = [
            DATA[at // 4] if at + 4 <= size else 0 for at in range(offset, offset + 4 * count, 4)
        ]
        got = result[16 * slot : 16 * slot + count]
        assert got == wanted, f"{name} {records} records of {stride} at {offset}"


STORES = [
    (name, count, records, at)
    for name, count, limits in (
        ("s_store_dwordx2", 2, (32,)),
        ("s_store_dwordx4", 4, (32,)),
        ("s_scratch_store_dwordx4", 4, (32,)),
        ("s_buffer_store_dword", 1, (32, 12, 0)),
        ("s_buffer_store_dwordx2", 2, (32, 16, 0)),
        ("s_buffer_store_dwordx4", 4, (32, 16, 12, 0)),
    )
    for records in limits
    for at in (0, 1, 2, 3, 4)
]


def test_stores_write_their_words_within_the_buffer() -> None:
    lines = [f"  s_load_dwordx4 s[28:31], s[6:7], {32:#x}", f"  s_mov_b32 s20, {FILL:#x}", WAIT]
    for slot, (name, count, records, at) in enumerate(STORES):
        lines += [store(20, 1, 8 * slot + index)[0] for index in range(8)]
        lines += [f"  s_add_u32 s12, s4, {32 * slot:#x}", "  s_addc_u32 s13, s5, 0", WAIT]
        lines += descriptor(8, records, base=12)
        address = "s[8:11]" if "buffer" in name else "s[12:13]"
        lines += [f"  {name} {span(28, count)}, {address}, {4 * at:#x}", WAIT]

    result = run(lines, 8 * len(STORES))

    for slot, (name, count, records, at) in enumerate(STORES):
        wanted = [FILL] * 8
        for index in range(count):
            if 4 * (at + index) + 4 <= records:
                wanted[at + index] = DATA[8 + index]
        assert result[8 * slot : 8 * slot + 8] == wanted, f"{name} {records} bytes, word {at}"


def test_scratch_loads_and_stores_of_four_words() -> None:
    lines = [
        "  s_mov_b32 s24, 2",  # a register counts 64 bytes, a constant bytes
        "  s_scratch_load_dwordx4 s[28:31], s[6:7], s24",
        "  s_scratch_load_dwordx4 s[32:35], s[6:7], 0x8",
        WAIT,
        "  s_mov_b32 s24, 1",
        "  s_scratch_store_dwordx4 s[28:31], s[4:5], s24",
        "  s_scratch_store_dwordx4 s[32:35], s[4:5], 0x4",
    ]

    result = run(lines, 24)

    wanted = [0] * 24
    wanted[16:20], wanted[1:5] = DATA[32:36], DATA[2:6]
    assert result == wanted


def test_setreg_writes_its_field_from_the_low_bits() -> None:
    cases = [
        (0, 4, 0xF),
        (4, 4, 0xFFFFFFF0),
        (2, 2, 0x80000001),
        (0, 8, 0xFFFFFF5A),
        (5, 1, MASK32),
    ]
    cases += [(23, 1, 1), (23, 1, 0xFFFFFFFE), (0, 10, MASK32), (8, 2, 0), (0, 1, 0)]
    lines = ["  s_getreg_b32 s9, hwreg(HW_REG_MODE)", *store(9, 1, 0)]
    for slot, (offset, width, value) in enumerate(cases, start=1):
        lines += [
            f"  s_mov_b32 s8, {value:#x}",
            f"  s_setreg_b32 hwreg(HW_REG_MODE, {offset}, {width}), s8",
            "  s_nop 1",
            "  s_getreg_b32 s9, hwreg(HW_REG_MODE)",
            *store(9, 1, slot),
            WAIT,
        ]

    result = run(lines, len(cases) + 1)

    mode = result[0]
    for (offset, width, value), got in zip(cases, result[1:], strict=True):
        field = ((1 << width) - 1) << offset
        mode = mode & ~field | value << offset & field
        assert got == mode, f"bits {offset} to {offset + width - 1} from {value:#x}"


def test_register_index_and_mode_change_only_their_bits_of_m0() -> None:
    lines = [f"  v_mov_b32_e32 v{10 + index}, {100 + index}" for index in range(8)]
    # The moves and the sum read v12, v15, v10 + v15, v10 to v9, v16 to v5, and v10.
    lines.append("""
  s_mov_b32 m0, 0xabcdef55
  s_mov_b32 s8, 0xffffff02
  s_mov_b32 s9, 0x12345605
  s_set_gpr_idx_on s8, gpr_idx(SRC0)
  s_mov_b32 s20, m0
  v_mov_b32_e32 v1, v10
  s_set_gpr_idx_idx s9
  s_mov_b32 s21, m0
  v_mov_b32_e32 v2, v10
  s_set_gpr_idx_mode gpr_idx(SRC1)
  s_mov_b32 s22, m0
  v_add_u32_e32 v3, v10, v10
  s_set_gpr_idx_mode gpr_idx(DST)
  s_mov_b32 s23, m0
  v_mov_b32_e32 v4, v10
  s_set_gpr_idx_mode gpr_idx(SRC0,DST)
  v_mov_b32_e32 v0, v11
  s_set_gpr_idx_mode 0
  s_mov_b32 s24, m0
  v_mov_b32_e32 v6, v10
  s_set_gpr_idx_off
  s_nop 4""")
    for index, number in enumerate((1, 2, 3, 9, 5, 6)):
        lines.append(f"  v_readfirstlane_b32 s{25 + index}, v{number}")
    lines += ["  s_nop 4", *store(20, 11, 0)]

    result = run(lines, 11)

    wanted = [0xABCD1F02, 0xABCD1F05, 0xABCD2F05, 0xABCD8F05, 0xABCD0F05]
    assert list(map(hex, result[:5])) == list(map(hex, wanted))
    assert result[5:] == [102, 105, 100 + 105, 100, 106, 100]


NO_OPS = [
    *("s_dcache_inv", "s_dcache_inv_vol", "s_dcache_wb", "s_dcache_wb_vol", "s_icache_inv"),
    *("s_incperflevel 3", "s_decperflevel 3", "s_setprio 0", "s_setprio 3"),
    *("s_ttracedata", "s_wakeup", "s_sendmsg sendmsg(MSG_INTERRUPT)"),
    "s_atc_probe_buffer 1, s[40:43], 0x0",
]


@pytest.mark.parametrize("scc", [0, 1])
def test_no_ops_keep_registers_memory_and_scc(scc: int) -> None:
    registers = [*range(8, 40), *range(44, 56)]
    lines = descriptor(40, 256, base=6)
    for slot, text in enumerate(NO_OPS):
        at = 64 * slot
        lines += [f"  s_mov_b32 s{number}, {0x1000 * slot + number:#x}" for number in registers]
        lines += ["  s_mov_b32 vcc_lo, 0x55", "  s_mov_b32 vcc_hi, 0x66", "  s_mov_b32 m0, 0x77"]
        lines += [f"  s_store_dword s8, s[4:5], {4 * at:#x}", f"  s_cmp_eq_u32 0, {1 - scc}"]
        lines += [f"  {text}", "  s_cselect_b32 s60, 1, 0", "  s_mov_b32 s61, m0", WAIT]
        lines += [f"  s_load_dword s62, s[4:5], {4 * at:#x}", WAIT]
        for index, number in enumerate([*registers, 60, 61, 62]):
            lines += store(number, 1, at + index)
        lines += [
            f"  s_store_dword vcc_lo, s[4:5], {4 * (at + 47):#x}",
            f"  s_store_dword vcc_hi, s[4:5], {4 * (at + 48):#x}",
            WAIT,
            "  s_mov_b64 s[60:61], exec",
            *store(60, 2, at + 49),
            WAIT,
        ]

    result = run(lines, 64 * len(NO_OPS))

    for slot, text in enumerate(NO_OPS):
        wanted = [0x1000 * slot + number for number in registers]
        wanted += [scc, 0x77, 0x1000 * slot + 8, 0x55, 0x66, MASK32, MASK32]
        assert result[64 * slot : 64 * slot + len(wanted)] == wanted, text


def test_endpgm_saved_ends_the_program() -> None:
    lines = ["  s_mov_b32 s8, 5", *store(8, 1, 0), WAIT, "  s_endpgm_saved"]
    lines += ["  s_mov_b32 s8, 6", *store(8, 1, 0), WAIT]

    assert run(lines, 1) == [5]


@pytest.mark.parametrize("name", ["s_memtime", "s_memrealtime"])
def test_time_grows(name: str) -> None:
    lines = []
    for slot in range(4):
        lines += [f"  {name} {register(8, 64)}", WAIT, *store(8, 2, 2 * slot), WAIT]
        lines += ["  s_sleep 127"] * 4

    result = run(lines, 8)

    times = [result[at] | result[at + 1] << 32 for at in range(0, 8, 2)]
    assert times == sorted(set(times))
