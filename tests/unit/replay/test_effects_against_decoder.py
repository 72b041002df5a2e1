"""The registers that the optimizer's analyses name against those that the emulated device uses.

Two independent tables: one is read from LLVM's text, the other from the encoding. What the
emulated device touches and the analyses do not know of would make a proof of theirs worthless.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from emulator_decoder import (
    READS_MODE,
    READS_SCC,
    TARGETS,
    WRITES_MODE,
    WRITES_SCC,
    decode_registers,
    read_rows,
)
from test_decoder import COMMON, GFX90A, GFX940, text_section
from test_op_tables import NOP, for_target, forms

from asmevo.codeobject.analysis.effects import effect_of
from asmevo.codeobject.analysis.register import (
    EXEC,
    MODE,
    SCC,
    RegisterSet,
    format_registers,
)
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.toolchain import disassemble

FURTHER = """
  s_addc_u32 s0, s1, s2
  s_cselect_b64 s[0:1], s[2:3], vcc
  s_and_saveexec_b64 s[0:1], vcc
  s_bitset1_b32 s0, s1
  s_cmov_b32 s0, s1
  s_addk_i32 s0, 5
  s_cmpk_eq_u32 s0, 5
  s_bfe_u64 s[0:1], s[2:3], 5
  s_lshl2_add_u32 s0, s1, s2
  v_cmpx_lt_u32_e32 vcc, v0, v1
  v_cmpx_lt_u32_e64 s[2:3], v0, v1
  v_div_fmas_f64 v[0:1], v[2:3], v[4:5], v[6:7]
  v_cndmask_b32_sdwa v0, v1, v2, vcc dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src1_sel:BYTE_0
  v_cndmask_b32_dpp v0, v1, v2, vcc row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0
  v_addc_co_u32_dpp v0, vcc, v1, v2, vcc row_shr:1 row_mask:0xf bank_mask:0xf
  v_subbrev_co_u32_e32 v0, vcc, v1, v2, vcc
  v_fmac_f32_e32 v0, v1, v2
  v_fma_mixhi_f16 v0, v1, v2, v3
  v_dot2c_f32_f16_e32 v0, v1, v2
  v_mad_i64_i32 v[0:1], vcc, v2, v3, v[4:5]
  v_pk_mov_b32 v[0:1], v[2:3], s[2:3]
  v_mbcnt_hi_u32_b32 v0, s1, v2
  v_mfma_i32_4x4x4i8 a[0:3], v0, v1, a[0:3]
  global_load_short_d16_hi v0, v[2:3], off
  global_atomic_cmpswap v0, v[2:3], s[2:3]
  buffer_load_ubyte_d16 v0, off, s[4:7], s3
  ds_read_u8_d16_hi v0, v1
  ds_write_b8_d16_hi v0, v1
  ds_cmpst_rtn_b64 v[0:1], v2, v[4:5], v[6:7]
  ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)
  flat_store_dwordx4 v[0:1], v[4:7]
"""
# Conservative: what a masked write leaves of the old value is a read to the analyses, FLAT depends
# on flat_scratch, and whatever computes in vector lanes on EXEC and MODE.
_MAY_ADD = ("flat_", "scratch_")


def differences(target: str, instructions: Iterable[Instruction]) -> list[str]:
    found = []
    for one in instructions:
        effect = effect_of(one)
        if effect.unknown is not None or one.mnemonic == ".long":
            continue
        reads, writes = registers_of(target, one.data)
        added = effect.reads & ~reads & ~(EXEC | MODE)
        if effect.merges:
            added &= ~effect.writes
        for name, registers in (
            ("does not know that it reads", reads & ~effect.reads),
            ("does not know that it writes", writes & ~effect.writes),
            ("thinks that it writes", effect.writes & ~writes),
            ("thinks that it reads", 0 if one.mnemonic.startswith(_MAY_ADD) else added),
        ):
            if registers and one.mnemonic != "v_nop":
                found.append(f"{one.text} {name} {format_registers(registers)}")
    return found


def registers_of(target: str, data: bytes) -> tuple[RegisterSet, RegisterSet]:
    flags, spans = decode_registers(target, data)
    reads = (SCC if flags & READS_SCC else 0) | (MODE if flags & READS_MODE else 0)
    writes = (SCC if flags & WRITES_SCC else 0) | (MODE if flags & WRITES_MODE else 0)
    for way, file, first, count in spans:
        registers = ((1 << count) - 1) << (first + (256 if file == "v" else 0))
        if way == "r":
            reads |= registers
        else:
            writes |= registers
    return reads, writes


@pytest.mark.parametrize("target", TARGETS)
def test_effects_name_the_registers_that_the_decoder_names(target: str) -> None:
    source = COMMON + FURTHER + (GFX90A if target == "gfx90a" else GFX940)

    instructions = disassemble(text_section(source, target), target)

    assert not differences(target, instructions)
    understood = sum(effect_of(one).unknown is None for one in instructions)
    assert understood > 110


@pytest.mark.parametrize("target", TARGETS)
def test_effects_of_every_operation_name_the_registers_that_the_decoder_names(target: str) -> None:
    words = [
        word
        for row in read_rows()
        if target in row.targets
        for form in forms(row)
        for word in [*for_target(form, row, target), NOP, NOP]
    ]
    data = b"".join(word.to_bytes(4, "little") for word in words)

    instructions = [one for one in disassemble(data, target) if one.mnemonic != "s_nop"]

    assert not differences(target, instructions)
    understood = {one.mnemonic for one in instructions if effect_of(one).unknown is None}
    assert len(understood) > 1000
