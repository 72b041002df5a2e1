"""`asmevo check` and `asmevo emulate --strict`: findings of a kernel that works by luck."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.codeobject import toolchain
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.verdict import Status

_OUT, _X, _BYTES = 0x7E0000000000, 0x7E0000100000, 512
_WAIT = "  s_waitcnt vmcnt(0)\n"
_SOURCE = f"""
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl copy
.p2align 8
.type copy,@function
copy:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[6:7]
{_WAIT}  v_add_u32_e32 v2, 1, v2
  global_store_dword v1, v2, s[4:5]
  s_endpgm
.Lend:
.size copy, .Lend-copy
.rodata
.p2align 6
.amdhsa_kernel copy
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: copy
    .symbol: copy.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 128
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""
_LUCKY_SOURCE = _SOURCE.replace(_WAIT, "")


def _assemble(text: str) -> bytes:
    return toolchain.link(toolchain.assemble(text, "gfx942"))


def _write_bundle(path: Path, source: str) -> Path:
    buffers = [Buffer(address=_OUT, before=bytes(_BYTES)), Buffer(address=_X, before=bytes(_BYTES))]
    return write_small_bundle(
        path, kernel="copy", code_object=_assemble(source), buffers=buffers, block=(128, 1, 1)
    )


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asmevo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_check_of_kernel_with_all_waits_finds_nothing(tmp_path: Path) -> None:
    done = _run("check", _write_bundle(tmp_path / "copy.aeb", _SOURCE))

    assert done.returncode == 0, done.stderr
    assert "copy (K0) on emulated:mi300x: no findings" in done.stdout


def test_check_of_kernel_with_lost_wait_names_both_instructions(tmp_path: Path) -> None:
    done = _run("check", _write_bundle(tmp_path / "copy.aeb", _LUCKY_SOURCE))

    assert done.returncode == 1, done.stderr
    assert "error: missing-wait" in done.stdout
    marked = [line.split() for line in done.stdout.splitlines() if line[8:9] in ("*", ">")]
    assert [line[2] for line in marked] == ["global_load_dword", "v_add_u32_e32"]


def test_check_with_json_prints_one_object_with_offsets(tmp_path: Path) -> None:
    paths = [
        _write_bundle(tmp_path / "good.aeb", _SOURCE),
        _write_bundle(tmp_path / "lucky.aeb", _LUCKY_SOURCE),
    ]

    done = _run("check", *paths, "--json")

    good, lucky = json.loads(done.stdout)["bundles"]
    assert good["findings"] == []
    (finding,) = lucky["findings"]
    assert (finding["rule"], finding["class"]) == ("missing-wait", "error")
    assert finding["other_instruction"].startswith("global_load_dword")
    assert finding["offset"] > finding["other_offset"]
    assert [finding["offset"], finding["instruction"]] in finding["listing"]


def test_check_of_candidate_looks_at_it_instead_of_k0(tmp_path: Path) -> None:
    bundle = _write_bundle(tmp_path / "copy.aeb", _SOURCE)
    candidate = tmp_path / "lucky.hsaco"
    candidate.write_bytes(_assemble(_LUCKY_SOURCE))

    done = _run("check", bundle, "--hsaco", candidate)

    assert done.returncode == 1
    assert "lucky.hsaco" in done.stdout
    assert "error: missing-wait" in done.stdout


def test_check_of_unknown_check_is_one_line(tmp_path: Path) -> None:
    done = _run("check", tmp_path / "absent.aeb", "--checks", "luck")

    assert done.returncode == 2
    assert done.stderr.startswith("asmevo: unknown check 'luck'; known: all, waits")
    assert len(done.stderr.splitlines()) == 1


def test_replay_of_candidate_with_lost_wait_fails_though_memory_is_identical(
    tmp_path: Path,
) -> None:
    bundle = _write_bundle(tmp_path / "copy.aeb", _SOURCE)
    candidate = tmp_path / "lucky.hsaco"
    candidate.write_bytes(_assemble(_LUCKY_SOURCE))

    (result,) = replay(bundle, [candidate], device=Device.parse("emulated")).candidates

    assert result.verdict.status is Status.CHECK_FAILED
    assert result.comparisons[0].is_identical
    assert "missing-wait at +0x" in result.verdict.reasons[0]


def test_replay_holds_candidate_only_to_rules_that_k0_keeps(tmp_path: Path) -> None:
    bundle = _write_bundle(tmp_path / "copy.aeb", _LUCKY_SOURCE)
    candidate = tmp_path / "same.hsaco"
    candidate.write_bytes(_assemble(_LUCKY_SOURCE))

    result = replay(bundle, [candidate], device=Device.parse("emulated"))

    assert len(result.k0.findings) == 1
    assert result.candidates[0].verdict.reasons == ()


_PROGRAM = """
import sys
from hip import hip
status, module = hip.hipModuleLoad(sys.argv[1].encode())
_, function = hip.hipModuleGetFunction(module, b"copy")
_, out = hip.hipMalloc(512)
_, x = hip.hipMalloc(512)
hip.hipMemset(x, 1, 512)
status, = hip.hipModuleLaunchKernel(
    function, 1, 1, 1, 128, 1, 1, 0, None, kernelParams=None, extra=(out, x))
assert int(status) == 0, status
print("ran")
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(_PROGRAM)
    return path


def _emulate(program: Path, source: str, code: int, *options: str) -> tuple[int, str, str]:
    kernel = program.with_name("copy.hsaco")
    kernel.write_bytes(_assemble(source))
    done = _run("emulate", *options, "--", sys.executable, program, kernel, code)
    return done.returncode, done.stdout, done.stderr


def test_strict_program_without_findings_keeps_its_exit_code(program: Path) -> None:
    code, out, err = _emulate(program, _SOURCE, 0, "--strict")

    assert (code, out) == (0, "ran\n"), err
    assert "asmevo: checked 1 kernel, 0 with findings" in err


def test_strict_program_with_findings_lists_them_and_ends_with_1(program: Path) -> None:
    report = program.with_name("findings.json")

    code, out, err = _emulate(program, _LUCKY_SOURCE, 0, "--strict", "--report", str(report))

    assert (code, out) == (1, "ran\n")
    assert "error: missing-wait" in err
    (kernel,) = json.loads(report.read_text())["kernels"]
    assert kernel["kernel"] == "copy"
    assert kernel["findings"][0]["rule"] == "missing-wait"


def test_strict_program_that_fails_itself_keeps_its_exit_code(program: Path) -> None:
    code, _, err = _emulate(program, _LUCKY_SOURCE, 7, "--strict")

    assert code == 7
    assert "error: missing-wait" in err


def test_program_without_strict_is_not_checked(program: Path) -> None:
    environment = dict(os.environ)
    assert "ASMEVO_EMULATOR_CHECKS" not in environment

    code, out, err = _emulate(program, _LUCKY_SOURCE, 0)

    assert (code, out) == (0, "ran\n"), err
