"""Scalar comparisons, immediates, bit sets, conditional moves and branches against Python."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from emulator_kernel import run_kernel
from scalar_cases import MASK32, MASK64, START, WIDE, WORDS, assert_cases, case, signed

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "lg": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
IMMEDIATES = (0, 1, 0x7FFF, 0x8000, 0xFFFF)


@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_comparison_of_any_two_words_sets_scc(kind: str) -> None:
    names, expected = [], []
    bodies: list[str] = []
    for name, compare in COMPARE.items():
        for a in WORDS:
            for b in WORDS[:5]:
                text = f"  s_cmp_{name}_{kind} s8, s12"
                bodies.append(case(text, [(8, 32, a), (12, 32, b)], 0, len(bodies)))
                pair = (signed(a), signed(b)) if kind == "i32" else (a, b)
                expected.append((0, int(compare(*pair))))
                names.append(f"{text} {a:#x} {b:#x}")

    assert_cases(names, bodies, expected)


@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_comparison_with_an_immediate_extends_it_by_its_kind(kind: str) -> None:
    names, expected = [], []
    bodies: list[str] = []
    for name, compare in COMPARE.items():
        for a in (*WORDS, 0x7FFF, 0xFFFF8000, 0x8000, 0xFFFF):
            for b in IMMEDIATES:
                text = f"  s_cmpk_{name}_{kind} s8, {b:#x}"
                bodies.append(case(text, [(8, 32, a)], 0, len(bodies)))
                pair = (signed(a), signed(b, 16)) if kind == "i32" else (a, b)
                expected.append((0, int(compare(*pair))))
                names.append(f"{text} {a:#x}")

    assert_cases(names, bodies, expected)


def test_wide_comparisons_and_bit_tests_set_scc() -> None:
    names, expected = [], []
    bodies: list[str] = []

    def add(text: str, inputs: list[tuple[int, int, int]], scc: bool) -> None:
        bodies.append(case(f"  {text}", inputs, 0, len(bodies)))
        expected.append((0, int(scc)))
        names.append(f"{text} {inputs}")

    for a in WIDE:
        for b in WIDE:
            inputs = [(8, 64, a), (12, 64, b)]
            add("s_cmp_eq_u64 s[8:9], s[12:13]", inputs, a == b)
            add("s_cmp_lg_u64 s[8:9], s[12:13]", inputs, a != b)
        for at in (0, 31, 32, 63, 64 + 5):
            inputs = [(8, 64, a), (12, 32, at)]
            wide, word = a >> (at & 63) & 1, a >> (at & 31) & 1
            add("s_bitcmp0_b64 s[8:9], s12", inputs, wide == 0)
            add("s_bitcmp1_b64 s[8:9], s12", inputs, wide == 1)
            add("s_bitcmp0_b32 s8, s12", inputs, word == 0)
            add("s_bitcmp1_b32 s8, s12", inputs, word == 1)

    assert_cases(names, bodies, expected)


def test_conditional_moves_and_immediate_arithmetic() -> None:
    names, expected = [], []
    bodies: list[str] = []

    def add(text: str, source: int, scc: int, value: int, after: int | None = None) -> None:
        # The result register starts at `source` where the instruction reads it.
        first = "  s_mov_b64 s[20:21], s[8:9]\n" if "mulk" in text or "addk" in text else ""
        bodies.append(case(f"{first}  {text}", [(8, 64, source)], scc, len(bodies)))
        expected.append((value, scc if after is None else after))
        names.append(f"{text} {source:#x} scc {scc}")

    for scc in (0, 1):
        for a in WIDE:
            add("s_cmov_b32 s20, s8", a, scc, a & MASK32 if scc else 0)
            add("s_cmov_b64 s[20:21], s[8:9]", a, scc, a if scc else 0)
        for b in IMMEDIATES:
            extended = signed(b, 16) & MASK32
            add(f"s_cmovk_i32 s20, {b:#x}", 0, scc, extended if scc else 0)
            add(f"s_movk_i32 s20, {b:#x}", 0, scc, extended)
            for a in WORDS:
                add(f"s_mulk_i32 s20, {b:#x}", a, scc, signed(a) * signed(b, 16) & MASK32)
                total = signed(a) + signed(b, 16)
                overflows = int(not -(1 << 31) <= total < 1 << 31)
                add(f"s_addk_i32 s20, {b:#x}", a, scc, total & MASK32, overflows)

    assert_cases(names, bodies, expected)


def test_bit_set_changes_one_bit_of_the_destination() -> None:
    names, expected = [], []
    bodies: list[str] = []
    for value, name in ((0, "s_bitset0"), (1, "s_bitset1")):
        for bits in (32, 64):
            for at in (0, 1, 31, 33, 63, 64):
                destination = "s20" if bits == 32 else "s[20:21]"
                text = f"  s_mov_b64 s[20:21], s[10:11]\n  {name}_b{bits} {destination}, s8"
                old, bit = 0x0F0F_0F0F_F0F0_F0F0, 1 << (at & bits - 1)
                bodies.append(case(text, [(8, 32, at), (10, 64, old)], 0, len(bodies)))
                expected.append((old | bit if value else old & ~bit & MASK64, 0))
                names.append(f"{name}_b{bits} {at}")

    assert_cases(names, bodies, expected)


@pytest.mark.parametrize(
    ("name", "model"),
    [("s_andn1_wrexec_b64", lambda s, e: ~s & e), ("s_andn2_wrexec_b64", lambda s, e: s & ~e)],
)
def test_wrexec_writes_the_new_mask_to_both(name: str, model: Callable[[int, int], int]) -> None:
    source, before = 0x00FF00FF12345678, 0x0F0F0F0F0F0F0F0F
    text = "  s_mov_b64 exec, s[10:11]\n"
    text += f"  {name} s[20:21], s[8:9]\n  s_xor_b64 s[24:25], s[20:21], exec"
    text += "\n  s_cselect_b32 s24, 1, 0\n  s_mov_b64 exec, -1\n  s_or_b32 s20, s20, s24"
    after = model(source, before) & MASK64

    # SCC is that of the last s_or: the low half is not zero, and exec was the same.
    assert_cases([name], [case(text, [(8, 64, source), (10, 64, before)], 0, 0)], [(after, 1)])


@pytest.mark.parametrize("wide", [False, True])
def test_relative_moves_add_m0_to_the_register(wide: bool) -> None:
    bits, pair = ("b64", "s[{}:{}]") if wide else ("b32", "s{}")
    read = pair.format(8, 9)
    body = f"""
  s_mov_b32 m0, 2
  s_mov_b64 s[10:11], 5
  s_mov_b64 s[12:13], 6
  s_nop 0
  s_movrels_{bits} {pair.format(20, 21)}, {read}
  s_movreld_{bits} {pair.format(20, 21)}, {pair.format(12, 13)}
  s_store_dword s20, s[4:5], 0x0
  s_store_dword s22, s[4:5], 0x4
  s_endpgm
"""

    assert run_kernel(START + body).words()[:2] == [5, 6]


def test_swappc_jumps_and_returns() -> None:
    body = """
  s_getpc_b64 s[8:9]
.Lhere:
  s_add_u32 s8, s8, .Lfunction-.Lhere
  s_addc_u32 s9, s9, 0
  s_swappc_b64 s[30:31], s[8:9]
  s_store_dword s12, s[4:5], 0x0
  s_endpgm
.Lfunction:
  s_mov_b32 s12, 0x66
  s_setpc_b64 s[30:31]
"""

    assert run_kernel(START + body).words()[0] == 0x66


@pytest.mark.parametrize(
    ("setup", "branch", "taken"),
    [
        ("s_cmp_eq_u32 0, 0", "s_cbranch_scc0", False),
        ("s_cmp_eq_u32 0, 1", "s_cbranch_scc0", True),
        ("s_cmp_eq_u32 0, 0", "s_cbranch_scc1", True),
        ("s_mov_b64 vcc, 0", "s_cbranch_vccnz", False),
        ("s_mov_b64 vcc, 4", "s_cbranch_vccnz", True),
        ("s_mov_b64 vcc, 0", "s_cbranch_vccz", True),
        ("s_mov_b64 exec, 0", "s_cbranch_execnz", False),
        ("s_mov_b64 exec, 1", "s_cbranch_execnz", True),
        ("s_mov_b64 exec, 0", "s_cbranch_execz", True),
        ("s_nop 0", "s_cbranch_cdbgsys", False),
        ("s_nop 0", "s_cbranch_cdbguser", False),
        ("s_nop 0", "s_cbranch_cdbgsys_or_user", False),
        ("s_nop 0", "s_cbranch_cdbgsys_and_user", False),
    ],
)
def test_branch_is_taken_on_its_condition(setup: str, branch: str, taken: bool) -> None:
    body = f"""
  s_mov_b32 s12, 1
  {setup}
  {branch} .Lout
  s_mov_b32 s12, 2
.Lout:
  s_store_dword s12, s[4:5], 0x0
  s_endpgm
"""

    assert run_kernel(START + body).words()[0] == (1 if taken else 2)


@pytest.mark.parametrize("instruction", ["s_sethalt 1", "s_sendmsghalt 1"])
def test_wave_that_halts_itself_is_a_fault(instruction: str) -> None:
    outcome = run_kernel(f"  {instruction}\n  s_endpgm")

    assert "halted itself" in outcome.report
