"""Device memory that nobody wrote is undefined, byte by byte, whoever might have written it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from emulator_kernel import Outcome, run_kernel

# v0 = byte offset of the lane, s[4:5] = output, of which the first half is cleared, s[6:7] = input.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v0, 2, v0
  v_mov_b32_e32 v1, 0
  v_mov_b32_e32 v2, 0
  v_mov_b32_e32 v3, 0
  s_waitcnt lgkmcnt(0)
"""
WAIT = "\n  s_waitcnt vmcnt(0) lgkmcnt(0)\n"
CLEARED = 512
# Loads v5 from memory that nobody wrote.
LOAD = "  global_load_dword v5, v0, s[4:5] offset:512" + WAIT
STORE = WAIT + "  global_store_dword v0, v5, s[4:5]\n"
ONE_LANE = "\n  s_mov_b64 exec, 1\n"
DESCRIPTOR = """
  s_mov_b32 s8, s4
  s_and_b32 s9, s5, 0xffff
  s_movk_i32 s10, 0x400
  s_mov_b32 s11, 0x27000
"""


def run(body: str) -> Outcome:
    outcome = run_kernel(
        START + body + WAIT + "  s_endpgm",
        lds=1024,
        cleared_bytes=CLEARED,
        options={"checks": "undefined", "on_finding": "collect"},
    )
    assert outcome.ok, outcome.report
    return outcome


REPORTED = {
    "copied": (LOAD + STORE, "undefined-store"),
    "added to": (LOAD + "  v_add_u32_e32 v5, v5, v0" + STORE, "undefined-store"),
    "address": (LOAD + "  v_and_b32_e32 v5, 0x7c, v5\n  ds_read_b32 v6, v5", "undefined-address"),
    "branch": (
        LOAD + "  v_readfirstlane_b32 s20, v5\n  s_cmp_eq_u32 s20, 0\n"
        "  s_cbranch_scc1 .Lnext\n.Lnext:",
        "undefined-branch",
    ),
    "EXEC": (LOAD + "  v_cmpx_gt_u32_e32 vcc, v5, v1", "undefined-exec"),
    "scalar load": (
        "  s_load_dword s20, s[4:5], 0x200" + WAIT + "  v_mov_b32_e32 v5, s20" + STORE,
        "undefined-store",
    ),
    "scalar buffer load": (
        DESCRIPTOR
        + "  s_buffer_load_dword s20, s[8:11], 0x204"
        + WAIT
        + "  v_mov_b32_e32 v5, s20"
        + STORE,
        "undefined-store",
    ),
    "buffer load": (
        DESCRIPTOR + "  buffer_load_dword v5, v0, s[8:11], 0 offen offset:512" + STORE,
        "undefined-store",
    ),
    "load to LDS": (
        "  s_mov_b32 m0, 0\n  s_nop 0\n  global_load_lds_dword v0, s[4:5] offset:512"
        + WAIT
        + "  v_add_u32_e32 v6, 512, v0\n  ds_read_b32 v5, v6"
        + STORE,
        "undefined-store",
    ),
    "FLAT load": (
        "  v_mov_b32_e32 v7, s5\n  v_add_co_u32_e32 v6, vcc, s4, v0\n  s_nop 1\n"
        "  v_addc_co_u32_e32 v7, vcc, 0, v7, vcc\n  flat_load_dword v5, v[6:7] offset:512" + STORE,
        "undefined-store",
    ),
    "old value of an atomic": (
        "  global_atomic_swap v5, v0, v1, s[4:5] offset:512 sc0" + STORE,
        "undefined-store",
    ),
    "sum of an atomic": ("  global_atomic_add v0, v1, s[4:5] offset:512", "undefined-store"),
    "byte beside one that was written": (
        ONE_LANE
        + "  global_store_byte v0, v1, s[4:5] offset:512"
        + WAIT
        + "  global_load_ubyte v5, v0, s[4:5] offset:513"
        + STORE,
        "undefined-store",
    ),
    "dword beside one that was written": (
        ONE_LANE
        + "  global_store_dword v0, v1, s[4:5] offset:516"
        + WAIT
        + "  global_load_dword v5, v0, s[4:5] offset:512"
        + STORE,
        "undefined-store",
    ),
    "half of a D16 load": (
        "  v_mov_b32_e32 v5, 0\n  global_load_short_d16_hi v5, v0, s[4:5] offset:512" + STORE,
        "undefined-store",
    ),
    "sign of a byte": (
        "  global_load_sbyte v5, v0, s[4:5] offset:512"
        + WAIT
        + "  v_lshrrev_b32_e32 v5, 16, v5"
        + STORE,
        "undefined-store",
    ),
    "wide load with one undefined dword": (
        ONE_LANE + "  global_load_dwordx2 v[4:5], v0, s[4:5] offset:508" + STORE,
        "undefined-store",
    ),
}


@pytest.mark.parametrize("name", REPORTED)
def test_memory_that_nobody_wrote_is_reported_where_it_counts(name: str) -> None:
    body, rule = REPORTED[name]

    assert [item["rule"] for item in run(body).findings] == [rule]


CLEAN = {
    "never used": LOAD + "  v_add_u32_e32 v6, v5, v5",
    "masked out": LOAD + "  v_and_b32_e32 v5, 0, v5" + STORE,
    "what the host cleared": "  global_load_dword v5, v0, s[4:5] offset:256" + STORE,
    "what the host copied": "  global_load_dword v5, v0, s[6:7]" + STORE,
    "stored before": "  global_store_dword v0, v1, s[4:5] offset:512"
    + WAIT
    + "  global_load_dword v5, v0, s[4:5] offset:512"
    + STORE,
    "all bytes stored, one by one": ONE_LANE
    + "".join(f"  global_store_byte v0, v1, s[4:5] offset:{512 + n}\n" for n in range(4))
    + WAIT
    + "  global_load_dword v5, v0, s[4:5] offset:512"
    + STORE,
    "stored across a word": ONE_LANE
    + "  global_store_dwordx2 v0, v[2:3], s[4:5] offset:516"
    + WAIT
    + "  global_load_dwordx2 v[4:5], v0, s[4:5] offset:516"
    + STORE,
    "swapped": "  global_atomic_swap v0, v1, s[4:5] offset:512"
    + WAIT
    + "  global_load_dword v5, v0, s[4:5] offset:512"
    + STORE,
    "other half of a D16 load": "  v_mov_b32_e32 v5, 0\n"
    "  global_load_short_d16_hi v5, v0, s[4:5] offset:512"
    + WAIT
    + "  v_lshlrev_b32_e32 v5, 16, v5"
    + STORE,
    "high bits of a byte": "  global_load_ubyte v5, v0, s[4:5] offset:512"
    + WAIT
    + "  v_lshrrev_b32_e32 v5, 8, v5"
    + STORE,
    "beyond a buffer": DESCRIPTOR
    + "  v_mov_b32_e32 v6, 0x400\n  buffer_load_dword v5, v6, s[8:11], 0 offen"
    + STORE,
    "LDS through FLAT": "  s_mov_b64 s[8:9], src_shared_base\n  v_mov_b32_e32 v6, v0\n"
    "  v_mov_b32_e32 v7, s9\n  flat_store_dword v[6:7], v1" + WAIT + "  ds_read_b32 v5, v0" + STORE,
}


@pytest.mark.parametrize("name", CLEAN)
def test_memory_that_somebody_wrote_gives_no_finding(name: str) -> None:
    assert run(CLEAN[name]).findings == []


def test_memory_is_tracked_across_workgroups_and_threads() -> None:
    # Each workgroup stores the bytes 4w..4w+3 of the second half and loads them back.
    body = """
  v_mov_b32_e32 v3, s2
  v_lshlrev_b32_e32 v3, 2, v3
  s_mov_b64 exec, 1
  global_store_dword v3, v1, s[4:5] offset:512
  s_waitcnt vmcnt(0)
  global_load_dword v5, v3, s[4:5] offset:512
  s_waitcnt vmcnt(0)
  global_store_dword v3, v5, s[4:5]
"""
    outcome = run_kernel(
        START + body + "  s_endpgm",
        grid=(128, 1, 1),
        directives=".amdhsa_system_sgpr_workgroup_id_x 1",
        cleared_bytes=CLEARED,
        options={"checks": "undefined", "on_finding": "collect", "threads": "4"},
    )

    assert outcome.ok, outcome.report
    assert outcome.findings == []


def test_allocation_is_filled_only_where_undefined_data_is_looked_for() -> None:
    outcome = run_kernel(START + "  s_endpgm", cleared_bytes=0, options={"checks": "waits"})

    assert outcome.output == bytes(1024)


_HOST_PROGRAM = """
import ctypes, json, sys
hip = ctypes.CDLL(sys.argv[1])
hip.asmevo_emulator_last_report.restype = ctypes.c_char_p
for name, value in ((b"checks", b"undefined"), (b"on_finding", b"collect")):
    assert hip.asmevo_emulator_set_option(name, value) == 0
module, function = ctypes.c_void_p(), ctypes.c_void_p()
image = open(sys.argv[2], "rb").read()
assert hip.hipModuleLoadData(ctypes.byref(module), image) == 0
assert hip.hipModuleGetFunction(ctypes.byref(function), module, b"k") == 0
out, source = ctypes.c_void_p(), ctypes.c_void_p()
size = ctypes.c_size_t(1024)
assert hip.hipMalloc(ctypes.byref(out), size) == 0
assert getattr(hip, sys.argv[3])(ctypes.byref(source), size, *map(int, sys.argv[4].split())) == 0
arguments = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(source))
def launch():
    shape = [ctypes.c_uint(n) for n in (1, 1, 1, 64, 1, 1, 0)]
    assert hip.hipModuleLaunchKernel(function, *shape, None, arguments, None) == 0
    report = json.loads(hip.asmevo_emulator_last_report())
    return [item["rule"] for item in report["findings"]]
print(json.dumps(launch()))
# The host writes through the pointer.
ctypes.memset(source.value, 7, 1024)
print(json.dumps(launch()))
"""


@pytest.mark.parametrize(
    ("function", "flags"), [("hipMalloc", ""), ("hipHostMalloc", "0"), ("hipMallocManaged", "1")]
)
def test_memory_that_the_host_writes_through_a_pointer_is_defined(
    tmp_path: Path, function: str, flags: str
) -> None:
    from emulator_kernel import kernel_text

    from asmevo.codeobject import toolchain
    from asmevo.native import emulator_library

    body = START + "  global_load_dword v5, v0, s[6:7]" + STORE + "  s_endpgm"
    image = tmp_path / "k.hsaco"
    image.write_bytes(toolchain.link(toolchain.assemble(kernel_text(body), "gfx942")))

    done = subprocess.run(
        [sys.executable, "-c", _HOST_PROGRAM, emulator_library(), image, function, flags],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert [json.loads(line) for line in done.stdout.splitlines()] == [["undefined-store"], []]
