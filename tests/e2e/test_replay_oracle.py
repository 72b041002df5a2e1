"""What the oracle holds candidates to besides the bytes of one launch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.codeobject import toolchain
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.replay.options import OracleOptions
from asmevo.replay.records import ObjectResult, ReplayResult
from asmevo.replay.rules import Tolerance
from asmevo.verdict import Status

_OUT, _X = 0x7E0000000000, 0x7E0000002000
_WAVES = 4
_ITEMS = 64 * _WAVES
_TEMPLATE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl probe
.p2align 8
.type probe,@function
; v0: item, v1: its byte offset, v2: its float of x; s[4:5]: out, s[6:7]: x.
probe:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_and_b32_e32 v0, 0x3ff, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[6:7]
  s_waitcnt vmcnt(0)
BODY
  s_endpgm
.Lend:
.size probe, .Lend-probe
.rodata
.p2align 6
.amdhsa_kernel probe
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 16
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 16
  .amdhsa_group_segment_fixed_size 2048
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: probe
    .symbol: probe.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 2048
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 16
    .max_flat_workgroup_size: 256
    .args:
      - {.name: out, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: x, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""
_SCALE = "v_mul_f32_e32 v3, 2.0, v2\nglobal_store_dword v1, v3, s[4:5]"
# All items of a wave in turn add to out[lane / 4]: the sums depend on the order of the waves.
_SUM = "v_and_b32_e32 v4, 0xfc, v1\nv_lshrrev_b32_e32 v4, 4, v4\nv_lshlrev_b32_e32 v4, 2, v4\n"
_ADD = _SUM + "global_atomic_add_f32 v4, v2, s[4:5]"


def _assemble(body: str) -> bytes:
    text = _TEMPLATE.replace("BODY", body)
    return toolchain.link(toolchain.assemble(text, "gfx942"))


def _inputs() -> np.ndarray[Any, np.dtype[np.float32]]:
    random = np.random.default_rng(5)
    return random.uniform(0.5, 100.0, _ITEMS).astype(np.float32)


def _replay(
    folder: Path, k0: str, candidates: Sequence[str], options: OracleOptions | None = None
) -> ReplayResult:
    return replay(
        _write(folder, k0),
        [_candidate(folder, index, body) for index, body in enumerate(candidates)],
        device=Device.parse("emulated"),
        options=options,
    )


def _write(folder: Path, k0: str) -> Path:
    return write_small_bundle(
        folder / "probe.aeb",
        kernel="probe",
        code_object=_assemble(k0),
        buffers=[
            Buffer(address=_OUT, before=bytes(4 * _ITEMS)),
            Buffer(address=_X, before=_inputs().tobytes()),
        ],
        block=(_ITEMS, 1, 1),
    )


def _candidate(folder: Path, index: int, body: str) -> Path:
    path = folder / f"{index}.hsaco"
    path.write_bytes(_assemble(body))
    return path


def _judge(
    folder: Path, k0: str, candidate: str, options: OracleOptions | None = None
) -> ObjectResult:
    result = _replay(folder, k0, [candidate], options)
    assert result.k0.verdict.has_passed, result.k0.verdict.reasons
    return result.candidates[0]


def test_oracle_launches_candidate_in_several_orders_and_both_states(tmp_path: Path) -> None:
    result = _judge(tmp_path, _SCALE, "v_add_f32_e32 v3, v2, v2\n" + _SCALE.split("\n")[1])

    assert result.verdict.has_passed, result.verdict.reasons
    launches = [comparison.launch for comparison in result.comparisons]
    assert len(launches) == 4
    assert launches[0] == ""
    assert "turns reversed" in launches[1]
    assert "seed 1" in launches[2]
    assert "seed 2" in launches[3]
    assert ["other content" in launch for launch in launches] == [False, True, False, True]
    first = result.comparisons[0].outcomes[0]
    assert (first.element_type, first.type_source, first.rule) == ("f32", "stores", "byte-exact")
    assert (first.elements, first.differing_elements, first.max_ulp) == (_ITEMS, 0, 0)


# Adds LDS content only if it is a number: right with the usual content by luck.
_LUCKY = (
    "v_mul_f32_e32 v3, 2.0, v2\nds_read_b32 v5, v1\ns_waitcnt lgkmcnt(0)\n"
    "v_cmp_o_f32_e32 vcc, v5, v5\ns_nop 1\nv_cndmask_b32_e32 v5, 0, v5, vcc\n"
    "v_add_f32_e32 v3, v3, v5\nglobal_store_dword v1, v3, s[4:5]"
)


def test_oracle_rejects_what_depends_on_unwritten_lds_by_second_content(tmp_path: Path) -> None:
    no_undefined = OracleOptions(checks="waits,hazards,races,barriers,alignment")

    result = _judge(tmp_path, _SCALE, _LUCKY, no_undefined)

    assert result.verdict.status is Status.DIVERGENT
    assert "with the other content of unwritten state" in result.verdict.reasons[0]


def test_oracle_without_second_state_and_check_misses_unwritten_lds(tmp_path: Path) -> None:
    blind = OracleOptions(checks="waits,hazards,races,barriers,alignment", second_state=False)

    assert _judge(tmp_path, _SCALE, _LUCKY, blind).verdict.has_passed


def test_oracle_rejects_unwritten_lds_by_check_alone(tmp_path: Path) -> None:
    result = _judge(tmp_path, _SCALE, _LUCKY, OracleOptions(second_state=False))

    assert result.verdict.status is Status.CHECK_FAILED


def test_k0_that_depends_on_unwritten_lds_judges_nothing(tmp_path: Path) -> None:
    result = _replay(tmp_path, _LUCKY, [_SCALE])

    assert result.k0.verdict.status is Status.DIVERGENT
    assert result.candidates[0].verdict.status is Status.UNSUPPORTED


def test_k0_with_float_atomics_has_an_envelope_that_candidates_must_stay_in(
    tmp_path: Path,
) -> None:
    in_halves = _SUM + (
        "v_cmp_gt_u32_e32 vcc, 128, v0\ns_and_saveexec_b64 s[8:9], vcc\n"
        "global_atomic_add_f32 v4, v2, s[4:5]\ns_xor_b64 exec, exec, s[8:9]\n"
        "global_atomic_add_f32 v4, v2, s[4:5]"
    )
    twice_in_one = _SUM + (
        "v_cmp_eq_u32_e32 vcc, 7, v0\nv_mov_b32_e32 v5, 0x3f8147ae\nv_mul_f32_e32 v5, v5, v2\n"
        "v_cndmask_b32_e32 v2, v2, v5, vcc\nglobal_atomic_add_f32 v4, v2, s[4:5]"
    )

    result = _replay(tmp_path, _ADD, [in_halves, twice_in_one])

    assert result.k0.verdict.has_passed, result.k0.verdict.reasons
    (envelope,) = result.k0.envelope
    assert (envelope.region, envelope.element_type) == (0, "f32")
    assert envelope.varying_elements > 0
    assert envelope.max_spread is not None
    assert 0 < envelope.max_spread < 1e-2
    same, wrong = result.candidates
    assert same.verdict.has_passed, same.verdict.reasons
    assert same.comparisons[0].outcomes[0].rule == "within K0's own variation"
    assert wrong.verdict.status is Status.DIVERGENT
    assert wrong.comparisons[-1].differences[0].element_index == 1


def test_k0_whose_waves_race_for_one_place_is_refused(tmp_path: Path) -> None:
    race = "v_and_b32_e32 v4, 0xfc, v1\nglobal_store_dword v4, v2, s[4:5]"

    result = _replay(tmp_path, race, [race])

    assert result.k0.verdict.status is Status.UNSUPPORTED
    assert "judge by" in result.k0.verdict.reasons[0]


_ROUNDED = (
    "v_mul_f32_e32 v3, 2.0, v2\nv_mul_f32_e32 v3, 0x3f800001, v3\nglobal_store_dword v1, v3, s[4:5]"
)


@pytest.mark.parametrize(("max_ulp", "passes"), [(None, False), (2, True), (0, False)])
def test_candidate_that_rounds_differently_passes_within_bounds_only(
    tmp_path: Path, max_ulp: int | None, passes: bool
) -> None:
    tolerance = None if max_ulp is None else Tolerance(max_ulp=max_ulp)

    result = _judge(tmp_path, _SCALE, _ROUNDED, OracleOptions(tolerance=tolerance))

    assert result.verdict.has_passed is passes
    outcome = result.comparisons[0].outcomes[0]
    assert outcome.max_ulp is not None
    assert 1 <= outcome.max_ulp <= 2


def test_bounds_do_not_apply_to_integers(tmp_path: Path) -> None:
    count = "v_add_u32_e32 v3, 5, v0\nglobal_store_dword v1, v3, s[4:5]"
    off_by_one = "v_add_u32_e32 v3, 6, v0\nglobal_store_dword v1, v3, s[4:5]"

    result = _judge(
        tmp_path, count, off_by_one, OracleOptions(tolerance=Tolerance(max_ulp=100, absolute=9))
    )

    assert result.verdict.status is Status.DIVERGENT


def test_oracle_without_guards_misses_write_past_the_end(tmp_path: Path) -> None:
    past = _SCALE + "\nglobal_store_dword v1, v3, s[4:5] offset:1024"

    caught = _judge(tmp_path, _SCALE, past)
    missed = _judge(tmp_path, _SCALE, past, OracleOptions(guards=False))

    assert caught.verdict.status is Status.DIVERGENT
    assert "outside the captured memory" in caught.verdict.reasons[0]
    assert missed.verdict.has_passed, missed.verdict.reasons


def test_replay_command_with_bounds_says_what_was_compared(tmp_path: Path) -> None:
    bundle, candidate = _write(tmp_path, _SCALE), _candidate(tmp_path, 0, _ROUNDED)
    arguments = ["replay", str(bundle), "--hsaco", str(candidate), "--max-ulp", "2"]

    text = CliRunner().invoke(app, arguments)
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)

    assert text.exit_code == 0, text.output
    assert "equivalent to K0" in text.stdout
    assert "within 2 ulp" in text.stdout
    (outcome, other) = data["candidates"][0]["comparisons"][0]["outcomes"]
    assert outcome["rule"] == "within 2 ulp"
    assert outcome["differing_elements"] > 0
    assert other["differing_elements"] == 0
    assert data["candidates"][0]["comparisons"][0]["elements_compared"] == 2 * _ITEMS
