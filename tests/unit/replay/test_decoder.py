"""The emulated device's decoder against LLVM: modifiers, constants, register files, refusals."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile
from emulator_decoder import TARGETS, decode

from asmevo.codeobject.toolchain import assemble, disassemble

COMMON = """
  s_load_dword s5, s[2:3], s7 offset:0x10
  s_load_dword s5, s[2:3], s0
  s_load_dword vcc_hi, s[2:3], -0x4
  s_load_dwordx2 flat_scratch, s[2:3], 0x10
  s_buffer_load_dwordx8 s[8:15], s[4:7], 0x20 glc
  s_memtime s[2:3]
  s_mov_b64 exec, -1
  s_mov_b32 m0, 0x12345
  s_mov_b64 s[0:1], 0xffffffff
  s_mov_b64 s[0:1], src_shared_base
  s_and_b32 vcc_lo, exec_hi, 0xff
  s_cmp_eq_u64 s[0:1], -16
  s_waitcnt vmcnt(20) lgkmcnt(2)
  s_waitcnt 0
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1
  s_set_gpr_idx_on s0, gpr_idx(SRC0,DST)
  s_movk_i32 s0, 0xfffe
  v_mov_b32_e32 v0, 0.15915494
  v_mov_b32_e32 v1, -4.0
  v_add_f32_e32 v0, 0x40490fdb, v1
  v_add_f32_e64 v0, -v1, |v2| clamp mul:2
  v_add_f32_e64 v0, s1, -|v2| div:2
  v_fma_f32 v0, v1, -v2, |s3|
  v_add_f16_e32 v0, 0.5, v1
  v_add_f64 v[0:1], v[2:3], 1.0
  v_add_f64 v[0:1], -v[2:3], |s[4:5]|
  v_cndmask_b32_e32 v0, v1, v2, vcc
  v_cndmask_b32_e64 v0, v1, -1, s[2:3]
  v_addc_co_u32_e32 v0, vcc, v1, v2, vcc
  v_addc_co_u32_e64 v0, s[4:5], v1, v2, s[6:7]
  v_cmp_lt_f32_e32 vcc, 1.0, v1
  v_cmp_lt_f32_e64 s[2:3], |v1|, -v2
  v_cmp_eq_u32_sdwa s[2:3], v0, v1 src0_sel:BYTE_0 src1_sel:WORD_1
  v_cmp_eq_u32_sdwa vcc, v0, v1 src0_sel:DWORD src1_sel:DWORD
  v_add_u32_sdwa v0, v1, sext(v2) dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0
  v_mul_f32_sdwa v0, -v1, |v2| clamp dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:WORD_1
  v_mov_b32_sdwa v0, s1 dst_sel:WORD_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_3
  v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0
  v_mov_b32_dpp v0, v1 quad_perm:[3,2,1,0] row_mask:0xa bank_mask:0x5
  v_add_f32_dpp v0, -v1, |v2| row_bcast:31 row_mask:0xc bank_mask:0xf
  v_add_u32_dpp v0, v1, v2 row_newbcast:3 row_mask:0xf bank_mask:0xf
  v_mov_b32_dpp v0, v1 wave_ror:1 row_mask:0xf bank_mask:0xf
  v_mov_b32_dpp v0, v1 row_half_mirror row_mask:0xf bank_mask:0xf
  v_mad_u64_u32 v[0:1], s[2:3], v2, v3, v[4:5]
  v_div_scale_f32 v0, vcc, v1, v1, v2
  v_div_fmas_f32 v0, v1, v2, v3
  v_mad_u16 v0, v1, v2, v3 op_sel:[1,0,1,1]
  v_pk_add_f16 v0, v1, v2 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0] neg_hi:[0,1] clamp
  v_pk_add_u16 v0, 7, v1
  v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,1]
  v_pk_mul_f32 v[0:1], s[2:3], v[4:5] op_sel_hi:[1,0]
  v_fma_mix_f32 v0, v1, -|v2|, v3 op_sel_hi:[1,0,1]
  v_readlane_b32 s0, v1, s2
  v_readfirstlane_b32 s0, v1
  v_writelane_b32 v0, s1, 5
  v_swap_b32 v0, v1
  v_accvgpr_read_b32 v1, a2
  v_accvgpr_write_b32 a1, 1.0
  v_accvgpr_write_b32 a1, v3
  v_accvgpr_mov_b32 a1, a2
  v_mfma_f32_32x32x4bf16_1k a[0:31], v[0:1], v[2:3], a[0:31] cbsz:1 abid:1 blgp:2
  v_mfma_f32_16x16x4f32 v[0:3], a0, v1, 0
  v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7]
  ds_read_b32 a1, v2 offset:4
  ds_read2st64_b64 v[0:3], v4 offset0:1 offset1:255
  ds_write2_b32 v0, v1, v2 offset1:8
  ds_add_rtn_u32 v0, v1, v2 offset:65535
  ds_bpermute_b32 v0, v1, v2
  buffer_load_dwordx4 v[0:3], off, s[4:7], 0 offset:4095
  buffer_load_dword v1, v2, s[4:7], s3 offen
  buffer_store_dwordx2 v[0:1], v[2:3], s[4:7], 16 idxen offen
  buffer_atomic_add v0, v1, s[4:7], 0 offen
  flat_load_dwordx3 v[0:2], v[4:5] offset:16
  flat_atomic_cmpswap_x2 v[0:1], v[2:5]
  global_load_dword a1, v[2:3], off
  global_load_dwordx2 v[0:1], v4, s[2:3] offset:-4096
  global_store_byte_d16_hi v[0:1], v2, off offset:4095
  global_atomic_add_f32 v0, v1, s[2:3]
  scratch_load_dword v1, v2, off offset:8
  scratch_store_dwordx2 off, v[2:3], s4 offset:-16
"""
GFX90A = """
  global_load_dword v0, v[2:3], off glc slc
  v_fmac_f64_e32 v[0:1], v[2:3], v[4:5]
"""
GFX940 = """
  s_getreg_b32 s0, hwreg(HW_REG_XCC_ID)
  v_mov_b64_e32 v[0:1], 0x3ff00000
  v_fmaak_f32 v0, v1, v2, 0x42000000
  v_fmamk_f32 v0, v1, 0x42000000, v2
  global_load_dword v0, v[2:3], off sc0 nt sc1
  global_atomic_add v0, v1, v2, s[2:3] sc0 sc1
  buffer_load_dword v1, v2, s[4:7], s3 offen sc0 nt sc1
  buffer_load_dword v2, s[4:7], s3 offen lds
  buffer_wbl2 sc0 sc1
  buffer_inv sc1
  global_load_lds_dword v[2:3], off offset:4
  scratch_load_dword v1, v2, s3 offset:8
  scratch_load_dword v1, off, off
  v_mfma_f32_32x32x16_fp8_bf8 a[0:15], v[0:1], v[2:3], a[0:15]
  v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[6:9], v10 cbsz:1 abid:2
  v_cvt_pk_fp8_f32 v0, v1, v2 op_sel:[0,0,1]
"""


def compare(target: str, data: bytes) -> list[str]:
    """Where our text is not LLVM's. Branches name labels with LLVM: only their size is compared."""
    problems = []
    for one in disassemble(data, target):
        if one.mnemonic == ".long":
            continue
        words = [
            int.from_bytes(one.data[at : at + 4], "little") for at in range(0, len(one.data), 4)
        ]
        size, text = decode(target, [*words, 0, 0])
        same = text.split() == one.text.split() or one.target is not None
        if size != len(words) or not same:
            problems.append(f"ours `{text}` ({size}), LLVM's `{one.text}` ({len(words)})")
    return problems


def text_section(source: str, target: str) -> bytes:
    header = f'.amdgcn_target "amdgcn-amd-amdhsa--{target}"\n.text\n'
    elf = ELFFile(io.BytesIO(assemble(header + source, target)))
    section = elf.get_section_by_name(".text")
    assert section is not None
    return bytes(section.data())


@pytest.mark.parametrize("target", TARGETS)
def test_decode_of_modifiers_and_operands_agrees_with_llvm(target: str) -> None:
    source = COMMON + (GFX90A if target == "gfx90a" else GFX940)

    problems = compare(target, text_section(source, target))

    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "cut off"),
        ([0xC0020041], "cut off"),
        ([0xBE8000FF], "cut off"),
        ([0xFFFFFFFF], "unknown encoding"),
        ([0xDC50C000, 0], "reserved FLAT segment"),
        ([0xBE8000FE], "reserved source"),
    ],
)
def test_decode_of_no_instruction_says_why(words: list[int], reason: str) -> None:
    size, text = decode("gfx942", words)

    assert size == -1
    assert reason in text


def test_decode_of_an_odd_register_tuple_is_refused() -> None:
    # global_load_dwordx2 v[1:2], v[2:3], off
    size, text = decode("gfx942", [0xDC548000, 0x017F0002])

    assert size == -1
    assert "even register" in text


def test_decode_of_any_words_ends_without_reading_further() -> None:
    state = 1
    for _ in range(20000):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        size, _text = decode("gfx950", [state >> 32])
        assert size in (-1, 1)
