"""Runs many cases of scalar instructions in one launch of the emulated device."""

from __future__ import annotations

from collections.abc import Iterator

from emulator_kernel import run_kernel

__all__ = [
    "MASK32",
    "MASK64",
    "START",
    "WIDE",
    "WORDS",
    "Result",
    "assert_cases",
    "case",
    "load",
    "register",
    "signed",
    "values",
]

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
WORDS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0x0000FFFF, 33)
WIDE = (0, 1, MASK64, 1 << 63, 0x123456789ABCDEF0, 0xFFFFFFFF, 0x8000000180000001)

Result = tuple[int, int | None]
"""Value and SCC; None leaves SCC as it was."""


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


START = "  s_load_dwordx2 s[4:5], s[0:1], 0x0\n  s_waitcnt lgkmcnt(0)\n"


def register(first: int, bits: int) -> str:
    return f"s{first}" if bits == 32 else f"s[{first}:{first + 1}]"


def load(first: int, bits: int, value: int) -> Iterator[str]:
    for at in range(bits // 32):
        yield f"  s_mov_b32 s{first + at}, {value >> 32 * at & MASK32:#x}"


def case(instruction: str, inputs: list[tuple[int, int, int]], scc: int, slot: int) -> str:
    """Loads registers, sets SCC, runs the instruction, stores s[20:21] and SCC in a slot."""
    lines = [line for first, bits, value in inputs for line in load(first, bits, value)]
    lines += ["  s_mov_b64 s[20:21], 0", f"  s_cmp_eq_u32 0, {1 - scc}", instruction]
    lines += ["  s_cselect_b32 s22, 1, 0"]
    lines += [f"  s_store_dword s{20 + at}, s[4:5], {slot * 12 + at * 4:#x}" for at in range(3)]
    return "\n".join([*lines, "  s_waitcnt lgkmcnt(0)"])


def run_cases(bodies: list[str]) -> list[tuple[int, int]]:
    outcome = run_kernel(START + "\n".join(bodies) + "\n  s_endpgm", output_bytes=len(bodies) * 12)
    assert outcome.ok, outcome.report
    words = outcome.words()
    return [(words[at] | words[at + 1] << 32, words[at + 2]) for at in range(0, len(words), 3)]


def values(bits: int) -> tuple[int, ...]:
    return WORDS if bits == 32 else WIDE


def assert_cases(names: list[str], bodies: list[str], expected: list[tuple[int, int]]) -> None:
    """Run the bodies (see `case`) and compare value and SCC of each."""
    results = run_cases(bodies)
    wrong = [
        f"{n}: got {r}, wanted {e}"
        for n, r, e in zip(names, results, expected, strict=True)
        if r != e
    ]
    assert not wrong, "\n".join(wrong[:20])
