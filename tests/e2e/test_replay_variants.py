"""Candidates that are right for the captured sizes only."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle
from typer.testing import CliRunner

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.cli import app
from asmevo.codeobject import toolchain
from asmevo.optimizer.run import optimize, read_bundles
from asmevo.optimizer.search import Budget
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.replay.region_types import TypeHints
from asmevo.replay.variation import write_variants
from asmevo.verdict import Status

_OUT, _X = 0x7E0000000000, 0x7E0000002000
_COUNT = 200
_SOURCE = (Path(__file__).parents[1] / "fixtures" / "scale.s").read_text()
_LOAD = "  s_load_dword s8, s[0:1], 0x10\n"
_MASKED = "  s_load_dwordx2 s[8:9], s[0:1], 0x10\n"
_WAIT = "  s_waitcnt lgkmcnt(0)\n"
_MASK = """  s_waitcnt lgkmcnt(0)
  v_lshrrev_b32_e32 v3, 2, v1
  v_cmp_gt_i32_e32 vcc, s9, v3
  s_and_b64 exec, exec, vcc
"""


def _assemble(*edits: tuple[str, str]) -> bytes:
    """out[i] = factor * x[i] for i < count."""
    text = _SOURCE.replace(_LOAD, _MASKED).replace(_WAIT, _MASK, 1)
    text = text.replace("_segment_size: 20", "_segment_size: 24").replace("_size 20", "_size 24")
    factor = "{.name: factor, .offset: 16, .size: 4, .value_kind: by_value}"
    assert factor in text
    count = factor.replace("factor", "count").replace("16", "20")
    text = text.replace(f"      - {factor}", f"      - {factor}\n      - {count}")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return toolchain.link(toolchain.assemble(text, "gfx942"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_small_bundle(
        tmp_path / "scale.aeb",
        kernel="scale",
        code_object=_assemble(),
        buffers=[
            Buffer(address=_OUT, before=bytes(1024)),
            Buffer(address=_X, before=np.arange(256, dtype=np.float32).tobytes()),
        ],
        scalars=np.float32(3).tobytes() + _COUNT.to_bytes(4, "little"),
        grid=(4, 1, 1),
    )


@pytest.fixture
def specialised(tmp_path: Path) -> Path:
    """The captured count as a constant."""
    path = tmp_path / "specialised.hsaco"
    path.write_bytes(
        _assemble(
            (
                "v_cmp_gt_i32_e32 vcc, s9, v3",
                f"s_movk_i32 s9, {_COUNT}\n  v_cmp_gt_i32_e32 vcc, s9, v3",
            )
        )
    )
    return path


def test_variants_change_sizes_and_floats_one_at_a_time(bundle: Path, tmp_path: Path) -> None:
    variants = write_variants(
        bundle, tmp_path, limit=9, hints=TypeHints(signature="*fp32,*fp32,fp32,i32")
    )

    assert [one.changes for one in variants] == [
        "count 133 instead of 200",
        "count 199 instead of 200",
        "factor 2.25 instead of 3",
        "special values in regions 0, 1",
    ]
    with open_bundle(variants[0].path) as first, open_bundle(variants[3].path) as last:
        assert first.kernarg()[20:24] == (133).to_bytes(4, "little")
        x = np.frombuffer(last.region_bytes(last.manifest.regions[1], Moment.BEFORE), np.float32)
    assert np.isnan(x).any()
    assert np.isinf(x).any()


def test_candidate_with_captured_size_as_constant_fails_on_a_variant(
    bundle: Path, specialised: Path, tmp_path: Path
) -> None:
    same = tmp_path / "same.hsaco"
    same.write_bytes(_assemble(("v_mul_f32_e32 v2, s8, v2", "v_mul_f32_e64 v2, v2, s8")))
    device = Device.parse("emulated")

    plain = replay(bundle, [specialised], device=device)
    varied = replay(bundle, [specialised, same], device=device, variants=3)

    assert plain.candidates[0].verdict.has_passed
    assert varied.k0.verdict.has_passed
    rejected, kept = varied.candidates
    assert rejected.verdict.status is Status.DIVERGENT
    assert rejected.verdict.reasons[0].startswith("with count 133 instead of 200: against K0: ")
    assert kept.verdict.has_passed, kept.verdict.reasons
    assert [one.is_used for one in varied.variants] == [True, True, True]


def test_variant_on_which_k0_faults_is_not_used(tmp_path: Path) -> None:
    # A divisor that is one less makes the kernel read far away.
    edits = (
        (
            "v_mul_f32_e32 v2, s8, v2\n",
            "v_mul_f32_e32 v2, s8, v2\n  s_sub_u32 s9, 0xc8, s9\n"
            "  s_lshl_b32 s9, s9, 28\n  v_add_u32_e32 v1, s9, v1\n",
        ),
    )
    bundle = write_small_bundle(
        tmp_path / "scale.aeb",
        kernel="scale",
        code_object=_assemble(*edits),
        buffers=[
            Buffer(address=_OUT, before=bytes(1024)),
            Buffer(address=_X, before=bytes(1024)),
        ],
        scalars=np.float32(3).tobytes() + _COUNT.to_bytes(4, "little"),
        grid=(4, 1, 1),
    )

    result = replay(bundle, [], device=Device.parse("emulated"), variants=1)

    assert result.k0.verdict.has_passed, result.k0.verdict.reasons
    (variant,) = result.variants
    assert not variant.is_used
    assert variant.reason.startswith("K0 is runtime_failure")


def test_optimize_holds_what_it_releases_to_variations(bundle: Path, tmp_path: Path) -> None:
    summary = optimize(
        read_bundles([bundle]),
        tmp_path / "run",
        device=Device.parse("emulated"),
        budget=Budget(candidates=2),
        vary=2,
    )

    assert summary["held_out"]["bundles"] == [
        f"{bundle} with count {count} instead of 200" for count in (133, 199)
    ]


def test_replay_command_with_vary_names_the_variation(bundle: Path, specialised: Path) -> None:
    arguments = ["replay", str(bundle), "--hsaco", str(specialised), "--vary", "1"]

    text = CliRunner().invoke(app, arguments)
    data = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)

    assert text.exit_code == 1
    assert "held to: count 133 instead of 200" in text.stdout
    assert data["variants"] == [
        {"changes": "count 133 instead of 200", "is_used": True, "reason": ""}
    ]
    assert data["candidates"][0]["verdict"]["status"] == "divergent"
