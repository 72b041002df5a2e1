"""Memory that is not mapped where it was: module globals, managed memory, hidden arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.capture.manifest import RegionKind
from asmevo.codeobject import toolchain
from asmevo.errors import ReplayError
from asmevo.replay.device import Device
from asmevo.replay.engine import ReplaySession, replay
from asmevo.verdict import Status

_SOURCE = (Path(__file__).parents[1] / "fixtures" / "scale.s").read_text()
_OUT, _X, _GLOBAL = 0x7E0000000000, 0x7E0000002000, 0x7C0000010000
_LOAD_FACTOR = "  s_load_dword s8, s[0:1], 0x10\n"
_FROM_GLOBAL = """  s_getpc_b64 s[8:9]
  s_add_u32 s8, s8, factor@rel32@lo+4
  s_addc_u32 s9, s9, factor@rel32@hi+12
  s_load_dword s8, s[8:9], 0x0
"""
_DATA = """
.data
.globl factor
.protected factor
.type factor,@object
.p2align 3
factor:
  .long 0
  .long 0
.size factor, 8
"""
# Adds 1 to the second word of the global, by one lane of one workgroup.
_COUNT = """  s_getpc_b64 s[10:11]
  s_add_u32 s10, s10, factor@rel32@lo+4
  s_addc_u32 s11, s11, factor@rel32@hi+12
  v_mov_b32_e32 v4, 4
  v_mov_b32_e32 v5, STEP
  s_mov_b64 exec, 1
  global_atomic_add v4, v5, s[10:11]
  s_endpgm
"""


def _assemble(*, step: int = 1, data: str = _DATA, name: str = "factor") -> bytes:
    text = _SOURCE.replace(_LOAD_FACTOR, _FROM_GLOBAL)
    head, end, tail = text.partition("  s_endpgm\n")
    assert end
    text = head + _COUNT.replace("STEP", str(step)) + tail + data
    text = text.replace("factor@", f"{name}@") if data == _DATA else text
    return toolchain.link(toolchain.assemble(text, "gfx942"))


def _write(path: Path, *, symbol: str = "factor", pointer_to: int | None = None) -> Path:
    x = np.arange(64, dtype=np.float32)
    content = bytearray(x.tobytes())
    if pointer_to is not None:
        content[8:16] = pointer_to.to_bytes(8, "little")
    before = np.float32(3).tobytes() + (5).to_bytes(4, "little")
    return write_small_bundle(
        path,
        kernel="scale",
        code_object=_assemble(),
        buffers=[
            Buffer(address=_OUT, before=bytes(256)),
            Buffer(address=_X, before=bytes(content)),
            Buffer(
                address=_GLOBAL,
                before=before,
                kind=RegionKind.MODULE_GLOBAL,
                symbol=symbol,
                after=np.float32(3).tobytes() + (6).to_bytes(4, "little"),
            ),
        ],
        scalars=bytes(4),
    )


def test_replay_restores_module_global_before_each_launch_and_compares_it(tmp_path: Path) -> None:
    same, twice = tmp_path / "same.hsaco", tmp_path / "twice.hsaco"
    same.write_bytes(_assemble())
    twice.write_bytes(_assemble(step=2))

    result = replay(_write(tmp_path / "scale.aeb"), [same, twice], device=Device.parse("emulated"))

    assert result.k0.verdict.reasons == ()
    assert result.k0.comparisons[0].against == "golden output"
    assert result.candidates[0].verdict.reasons == ()
    assert result.candidates[1].verdict.status is Status.DIVERGENT
    (difference,) = result.candidates[1].comparisons[0].differences
    assert (difference.region, difference.byte_offset) == (2, 4)
    assert (difference.expected[:10], difference.actual[:10]) == ("0x00000006", "0x00000007")


def test_candidate_without_the_module_global_is_rejected(tmp_path: Path) -> None:
    other = tmp_path / "other.hsaco"
    other.write_bytes(toolchain.link(toolchain.assemble(_SOURCE, "gfx942")))

    result = replay(_write(tmp_path / "scale.aeb"), [other], device=Device.parse("emulated"))

    assert result.candidates[0].verdict.status is Status.STATIC_REJECTED
    assert result.candidates[0].verdict.reasons == ("module global factor is missing",)


def test_bundle_whose_memory_points_into_the_old_image_is_refused(tmp_path: Path) -> None:
    bundle = _write(tmp_path / "scale.aeb", pointer_to=_GLOBAL + 4)

    with (
        pytest.raises(ReplayError, match=r"region 1 points into K0's old image .* at offset 8"),
        ReplaySession(bundle, device=Device.parse("emulated")) as session,
    ):
        assert session.k0


def test_bundle_with_module_global_that_k0_lacks_is_refused(tmp_path: Path) -> None:
    bundle = _write(tmp_path / "scale.aeb", symbol="divisor")

    with pytest.raises(ReplayError, match="module global divisor: it is not in K0's symbol table"):
        ReplaySession(bundle, device=Device.parse("emulated"))


def _write_with_hidden(path: Path, kind: str, *, is_read: bool) -> Path:
    line = "      - {.name: factor, .offset: 16, .size: 4, .value_kind: by_value}\n"
    assert line in _SOURCE
    hidden = f"      - {{.offset: 24, .size: 8, .value_kind: {kind}}}\n"
    text = _SOURCE.replace(line, line + hidden)
    text = text.replace("_segment_size: 20", "_segment_size: 32").replace("_size 20", "_size 32")
    if is_read:
        text = text.replace(
            _LOAD_FACTOR, _LOAD_FACTOR + "  s_load_dwordx2 s[10:11], s[0:1], 0x18\n"
        )
    return write_small_bundle(
        path,
        kernel="scale",
        code_object=toolchain.link(toolchain.assemble(text, "gfx942")),
        buffers=[Buffer(address=_OUT, before=bytes(256)), Buffer(address=_X, before=bytes(256))],
        scalars=np.float32(2).tobytes(),
    )


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("hidden_heap_v1", "device heap"),
        ("hidden_multigrid_sync_arg", "several devices"),
        ("hidden_default_queue", "a queue"),
    ],
)
def test_kernel_that_reads_hidden_argument_nobody_can_rebuild_is_refused(
    tmp_path: Path, kind: str, what: str
) -> None:
    bundle = _write_with_hidden(tmp_path / "scale.aeb", kind, is_read=True)

    with pytest.raises(ReplayError, match=f"uses .*{what}.*cannot be replayed"):
        ReplaySession(bundle, device=Device.parse("emulated"))


def test_kernel_that_only_declares_such_an_argument_is_replayed(tmp_path: Path) -> None:
    bundle = _write_with_hidden(tmp_path / "scale.aeb", "hidden_heap_v1", is_read=False)

    assert replay(bundle, [], device=Device.parse("emulated")).verdict.has_passed


def test_replay_of_managed_memory_says_what_it_is_restored_as(tmp_path: Path) -> None:
    bundle = write_small_bundle(
        tmp_path / "scale.aeb",
        kernel="scale",
        code_object=toolchain.link(toolchain.assemble(_SOURCE, "gfx942")),
        buffers=[
            Buffer(address=_OUT, before=bytes(256)),
            Buffer(address=_X, before=bytes(256), kind=RegionKind.MANAGED),
        ],
        scalars=np.float32(2).tobytes(),
    )

    result = replay(bundle, [], device=Device.parse("emulated"))

    assert result.verdict.has_passed
    assert result.notes == (
        "region 1 is managed memory, which has no call for a fixed address: restored as device "
        "memory",
    )
    assert result.to_json()["notes"] == result.notes


@pytest.mark.parametrize("grid", [4, 200_000])
def test_cooperative_dispatch_is_launched_as_one(tmp_path: Path, grid: int) -> None:
    x = np.arange(256, dtype=np.float32)
    bundle = write_small_bundle(
        tmp_path / "scale.aeb",
        kernel="scale",
        code_object=toolchain.link(toolchain.assemble(_SOURCE, "gfx942")),
        buffers=[
            Buffer(address=_OUT, before=bytes(1024), after=(2 * x).tobytes()),
            Buffer(address=_X, before=x.tobytes()),
        ],
        scalars=np.float32(2).tobytes(),
        grid=(grid, 1, 1),
        is_cooperative=True,
    )

    result = replay(bundle, [], device=Device.parse("emulated"))

    if grid == 4:
        assert result.k0.verdict.reasons == ()
    else:  # more workgroups than the chip holds at one time
        assert result.k0.verdict.status is Status.RUNTIME_FAILURE
        assert "hipModuleLaunchCooperativeKernel" in result.k0.verdict.reasons[0]
