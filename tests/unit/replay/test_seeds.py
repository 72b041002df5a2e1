"""Seeds: what a program that does not wait may see shows; one that waits gives the same always."""

from __future__ import annotations

import struct

import pytest
from emulator_kernel import Outcome, run_kernel

SEEDS = range(1, 6)
# v0 = lane's byte offset within the workgroup, v2 = the same reversed (another wave's),
# s[4:5] = output, s[6:7] = input.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  v_sub_u32_e32 v2, 508, v0
  v_mov_b32_e32 v1, 7
  s_waitcnt lgkmcnt(0)
"""
END = "\n  s_endpgm"
DATA = struct.pack("<256I", *range(1000, 1256))


def run(body: str, seed: int, checks: str = "none") -> Outcome:
    outcome = run_kernel(
        START + body + END,
        lds=1024,
        block=(128, 1, 1),
        data=DATA,
        output_bytes=1024,
        options={"checks": checks, "seed": str(seed)},
    )
    assert outcome.ok, outcome.report
    return outcome


# Each holds a wait or a barrier between two marks: without it some seed gives another result.
PROGRAMS = {
    "load": """
  global_load_dword v1, v0, s[6:7]
  {s_waitcnt vmcnt(0)}
  v_add_u32_e32 v1, 1, v1
  global_store_dword v0, v1, s[4:5]""",
    "second of two loads": """
  global_load_dword v1, v0, s[6:7]
  global_load_dword v3, v0, s[6:7] offset:4
  {s_waitcnt vmcnt(0)}
  v_add_u32_e32 v1, v3, v1
  global_store_dword v0, v1, s[4:5]""",
    "half of a register": """
  global_load_short_d16_hi v1, v0, s[6:7]
  {s_waitcnt vmcnt(0)}
  v_mov_b32_e32 v3, v1
  global_store_dword v0, v3, s[4:5]""",
    "scalar load": """
  s_load_dword s8, s[6:7], 0x10
  {s_waitcnt lgkmcnt(0)}
  v_mov_b32_e32 v1, s8
  global_store_dword v0, v1, s[4:5]""",
    "LDS read": """
  ds_write_b32 v0, v0
  ds_read_b32 v1, v0
  {s_waitcnt lgkmcnt(0)}
  v_mov_b32_e32 v3, v1
  global_store_dword v0, v3, s[4:5]""",
    "returning atomic": """
  global_atomic_add v1, v0, v2, s[4:5] offset:512 sc0
  {s_waitcnt vmcnt(0)}
  v_add_u32_e32 v1, 5, v1
  global_store_dword v0, v1, s[4:5]""",
    "barrier": """
  ds_write_b32 v0, v0
  s_waitcnt lgkmcnt(0)
  {s_barrier}
  ds_read_b32 v1, v2
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[4:5]""",
    "wait before a barrier": """
  ds_write_b32 v0, v0
  {s_waitcnt lgkmcnt(0)}
  s_barrier
  ds_read_b32 v1, v2
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[4:5]""",
    "LDS-DMA": """
  s_mov_b32 m0, 0
  v_and_b32_e32 v3, 0xff, v0
  s_nop 0
  global_load_lds_dword v3, s[6:7]
  {s_waitcnt vmcnt(0)}
  ds_read_b32 v1, v3
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[4:5]""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_that_waits_gives_the_same_for_every_seed(name: str) -> None:
    body = PROGRAMS[name].replace("{", "").replace("}", "")

    outputs = {run(body, seed).output for seed in (0, *SEEDS)}

    assert len(outputs) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_without_its_wait_differs_for_some_seed(name: str) -> None:
    text = PROGRAMS[name]
    lacking = text[: text.index("{")] + text[text.index("}") + 1 :]
    right = run(text.replace("{", "").replace("}", ""), 0).output

    outputs = [run(lacking, seed).output for seed in SEEDS]

    assert any(output != right for output in outputs)


def test_seed_gives_the_same_result_twice() -> None:
    text = PROGRAMS["barrier"].replace("{s_barrier}", "")

    assert run(text, 3).output == run(text, 3).output


def test_seed_permutes_turns_under_checks_too() -> None:
    text = PROGRAMS["barrier"].replace("{s_barrier}", "")

    outputs = {run(text, seed, "hazards").output for seed in (0, *SEEDS)}

    assert len(outputs) > 1


def test_unknown_seed_is_refused() -> None:
    with pytest.raises(AssertionError):
        run_kernel(START + END, options={"seed": "soon"})
