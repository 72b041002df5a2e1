"""The comparison of whole code objects with LLVM's disassembly, on small ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from asmevo.codeobject.toolchain import assemble, link

SCRIPT = Path(__file__).parents[3] / "scripts" / "verify_decoder.py"
KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
  s_mov_b32 s4, 0xffffffff
  s_and_b32 s5, s4, 0x40
  v_add_f32_e32 v0, 0x40490fdb, v1
  v_cvt_f32_ubyte3_sdwa v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1
  v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf
  ds_read2_b32 v[0:1], v2 offset0:3 offset1:7
  buffer_load_dword v1, v2, s[4:7], s3 offen offset:8
  tbuffer_load_format_x v1, v2, s[4:7], 0 format:[BUF_DATA_FORMAT_8,BUF_NUM_FORMAT_UINT] offen
.Lloop:
  s_cbranch_scc1 .Lloop
  s_add_u32 s4, s4, 7
  {more}
  s_endpgm
.size kernel, .-kernel
  .long 0xffffffff
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_next_free_vgpr 64
  .amdhsa_accum_offset 64
  .amdhsa_next_free_sgpr 32
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 64
    .max_flat_workgroup_size: 1024
    .args: []
.end_amdgpu_metadata
"""
MORE = {
    "gfx90a": "buffer_store_lds_dword s[4:7], 0 lds",
    "gfx942": "v_cvt_pk_f32_fp8_sdwa v[2:3], v4 src0_sel:WORD_1",
    "gfx950": "v_bitop3_b32 v0, v1, v2, v3 bitop3:0x2a\n"
    "  v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:7], v[8:11], v[0:3], v12, v13"
    " op_sel:[1,0,0] op_sel_hi:[0,1,0] cbsz:4 blgp:4\n"
    "  v_cvt_scalef32_pk_fp4_f16 v1, v2, v3 op_sel:[0,0,1,1]",
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_decoder", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("objects")
    for arch, more in MORE.items():
        text = KERNEL.format(arch=arch, more=more)
        (folder / f"{arch}.co").write_bytes(link(assemble(text, arch)))
    return folder


def compare_all(script: ModuleType, folder: Path) -> dict[str, tuple[int, list[str]]]:
    """The script's comparison without its processes."""
    found: dict[str, set[bytes]] = {}
    for target, text in script.collect([folder]):
        found.setdefault(target, set()).update(script.split(target, text))
    return {target: script.compare((target, sorted(all_))) for target, all_ in found.items()}


def test_code_objects_of_each_target_decode_as_with_llvm(script: ModuleType, objects: Path) -> None:
    results = compare_all(script, objects)

    assert set(results) == set(MORE)
    for undecoded, differences in results.values():
        assert undecoded == 1  # the word behind the kernel
        assert not differences


def test_wrong_text_is_a_difference(
    script: ModuleType, objects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = script.ours
    monkeypatch.setattr(script, "ours", lambda target, data: (right(target, data)[0], "v_nop"))

    for _, differences in compare_all(script, objects).values():
        assert len(differences) > 8
