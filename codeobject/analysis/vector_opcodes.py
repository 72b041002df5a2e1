"""Vector arithmetic of gfx9: VOP1, VOP2, VOP3, VOP3P, VOPC, SDWA and DPP forms, MFMA."""

from __future__ import annotations

import re

from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.operand import Operands
from asmevo.codeobject.analysis.register import EXEC, MODE, VCC, parse_registers

__all__ = ["MATRIX", "TRANSCENDENTALS", "describe_vector", "is_dot", "reads_lane_mask"]


def _expand(table: str) -> frozenset[str]:
    """Lines of `stem: kinds` to full mnemonics."""
    found = set()
    for line in table.strip().splitlines():
        stem, _, kinds = line.strip().partition(":")
        found |= {f"{stem}_{kind}" for kind in kinds.split()} if kinds else {stem}
    return frozenset(found)


# One destination, whole 32-bit registers written, sources as printed.
_PLAIN = _expand(
    """
    v_mov: b32 b64
    v_not: b32
    v_bfrev: b32
    v_ffbh: u32 i32
    v_ffbl: b32
    v_and: b32
    v_or: b32
    v_xor: b32
    v_xnor: b32
    v_add: f16 f32 f64 u16 u32 i16 i32
    v_sub: f16 f32 u16 u32 i16 i32
    v_subrev: f16 f32 u16 u32
    v_mul: f16 f32 f64 i32_i24 u32_u24 legacy_f32 lo_u32 lo_u16 hi_u32 hi_i32 hi_i32_i24 hi_u32_u24
    v_min: f16 f32 f64 u16 i16 u32 i32
    v_max: f16 f32 f64 u16 i16 u32 i32
    v_minimum3: f32
    v_maximum3: f32
    v_pk_minimum3: f16
    v_pk_maximum3: f16
    v_prng: b32
    v_trig_preop: f64
    v_cvt_scalef32: f32_fp8 f32_bf8 pk_f32_fp8 pk_f32_bf8 pk_f32_fp4
    v_cvt_scalef32: pk_f16_fp8 pk_f16_bf8 pk_f16_fp4 pk_bf16_fp8 pk_bf16_bf8 pk_bf16_fp4
    v_min3: f16 f32 u16 i16 u32 i32
    v_max3: f16 f32 u16 i16 u32 i32
    v_med3: f16 f32 u16 i16 u32 i32
    v_lshlrev: b16 b32 b64
    v_lshrrev: b16 b32 b64
    v_ashrrev: i16 i32 i64
    v_lshl_add: u32 u64
    v_lshl_or: b32
    v_add_lshl: u32
    v_add3: u32
    v_and_or: b32
    v_or3: b32
    v_xad: u32
    v_perm: b32
    v_alignbit: b32
    v_alignbyte: b32
    v_bfe: u32 i32
    v_bfi: b32
    v_bfm: b32
    v_bcnt: u32_b32
    v_bitop3: b16 b32
    v_mbcnt_lo: u32_b32
    v_mbcnt_hi: u32_b32
    v_mad: f16 f32 u16 i16 u32_u24 i32_i24 u32_u16 i32_i16 legacy_f32
    v_madak: f32
    v_madmk: f32
    v_fma: f16 f32 f64 legacy_f16
    v_fma_mix: f32
    v_fmaak: f32
    v_fmamk: f32
    v_ldexp: f16 f32 f64
    v_div_fixup: f16 f32 f64
    v_pack: b32_f16
    v_sad: u8 hi_u8 u16 u32
    v_msad: u8
    v_lerp: u8
    v_cubeid: f32
    v_cubesc: f32
    v_cubetc: f32
    v_cubema: f32
    v_exp: f16 f32 legacy_f32
    v_log: f16 f32 legacy_f32
    v_rcp: f16 f32 f64 iflag_f32
    v_rsq: f16 f32 f64
    v_sqrt: f16 f32 f64
    v_sin: f16 f32
    v_cos: f16 f32
    v_ceil: f16 f32 f64
    v_floor: f16 f32 f64
    v_trunc: f16 f32 f64
    v_rndne: f16 f32 f64
    v_fract: f16 f32 f64
    v_frexp_exp: i32_f32 i32_f64 i16_f16
    v_frexp_mant: f16 f32 f64
    v_cvt: f32_f16 f32_i32 f32_u32 f32_f64 f32_bf16 f32_fp8 f32_bf8 f64_f32 f64_i32 f64_u32
    v_cvt: i32_f32 i32_f64 u32_f32 u32_f64 f16_f32 f16_u16 f16_i16 u16_f16 i16_f16
    v_cvt: f32_ubyte0 f32_ubyte1 f32_ubyte2 f32_ubyte3 off_f32_i4 flr_i32_f32 rpi_i32_f32
    v_cvt: norm_i16_f16 norm_u16_f16 pk_f32_fp8 pk_f32_bf8 pk_u8_f32 pkrtz_f16_f32
    v_cvt_pk: u16_u32 i16_i32 bf16_f32 f16_f32
    v_cvt_pknorm: i16_f32 u16_f32 i16_f16 u16_f16
    v_pk_add: f16 f32 u16 i16
    v_pk_sub: u16 i16
    v_pk_mul: f16 f32 lo_u16
    v_pk_fma: f16 f32
    v_pk_mad: u16 i16
    v_pk_max: f16 u16 i16
    v_pk_min: f16 u16 i16
    v_pk_lshlrev: b16
    v_pk_lshrrev: b16
    v_pk_ashrrev: i16
    v_pk_mov: b32
    v_dot2: f32_f16 f32_bf16 i32_i16 u32_u16
    v_dot4: i32_i8 u32_u8
    v_dot8: i32_i4 u32_u4
    v_cndmask: b32
    v_accvgpr_read: b32
    v_accvgpr_write: b32
    v_accvgpr_mov: b32
    """
)
# The destination is also a source, or a part of it stays as it was.
_MERGES = _expand(
    """
    v_fmac: f16 f32 f64
    v_mac: f16 f32
    v_fma_mixlo: f16
    v_fma_mixhi: f16
    v_mad_mixlo: f16
    v_mad_mixhi: f16
    v_mov_b16
    v_dot2c: f32_f16 f32_bf16 i32_i16
    v_dot4c: i32_i8
    v_dot8c: i32_i4
    v_cvt_pk: fp8_f32 bf8_f32
    v_cvt_sr: fp8_f32 bf8_f32 f16_f32 bf16_f32
    v_cvt_pkaccum: u8_f32
    v_cvt_scalef32: f16_fp8 f16_bf8
    v_cvt_scalef32_pk: fp8_f32 fp8_f16 fp8_bf16 bf8_f32 bf8_f16 bf8_bf16 fp4_f32 fp4_f16 fp4_bf16
    v_cvt_scalef32_sr: fp8_f32 fp8_f16 fp8_bf16 bf8_f32 bf8_f16 bf8_bf16
    v_cvt_scalef32_sr_pk: fp4_f32 fp4_f16 fp4_bf16
    v_ashr_pk: i8_i32 u8_i32
    v_pk_fmac: f16
    """
)
# 16-bit operations new in gfx9 leave the upper half of the destination as it is; the older ones
# zero it (LLVM's GCNSubtarget::zeroesHigh16BitsOfDest names those). What is not named is here.
_KEEPS_UPPER_HALF = _expand(
    """
    v_fma: f16
    v_fmaak: f16
    v_fmamk: f16
    v_mad: f16 u16 i16
    v_div_fixup: f16
    v_med3: f16 u16 i16
    v_min3: f16 u16 i16
    v_max3: f16 u16 i16
    v_add: i16
    v_sub: i16
    v_cvt_norm: i16_f16 u16_f16
    """
)
# A lane mask is written beside the vector destination; both are printed.
_TWO_DESTINATIONS = _expand(
    """
    v_add_co: u32
    v_sub_co: u32
    v_subrev_co: u32
    v_addc_co: u32
    v_subb_co: u32
    v_subbrev_co: u32
    v_mad: u64_u32 i64_i32
    v_div_scale: f32 f64
    """
)
TRANSCENDENTALS = _expand(
    """
    v_exp: f16 f32 legacy_f32
    v_log: f16 f32 legacy_f32
    v_rcp: f16 f32 f64 iflag_f32
    v_rsq: f16 f32 f64
    v_sqrt: f16 f32 f64
    v_sin: f16 f32
    v_cos: f16 f32
    """
)
_LANE_READS = frozenset({"v_readfirstlane_b32", "v_readlane_b32"})
_DIVISION_STEPS = frozenset({"v_div_fmas_f32", "v_div_fmas_f64"})
_SWAPS = frozenset({"v_swap_b32", "v_permlane16_swap_b32", "v_permlane32_swap_b32"})
_COMPARE = re.compile(
    r"v_cmpx?_(?:(?:f|t)_[fiu](?:16|32|64)|class_f(?:16|32|64)"
    r"|(?:lt|eq|le|gt|lg|ge|ne|o|u|nge|nlg|ngt|nle|neq|nlt|tru)_[fiu](?:16|32|64))"
)
MATRIX = re.compile(
    r"v_(?P<kind>mfma|mfma_scale|smfmac)_(?P<result>f32|f64|i32)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
    r"(?:_(?P<blocks>\d+)b)?_?(?P<type>f32|f64|xf32|f16|bf16(?:_1k)?|i8|f8f6f4|(?:fp8|bf8)_(?:fp8|bf8))"
)


def is_dot(base: str) -> bool:
    """True for the dot products of VOP2 and VOP3P."""
    return base.startswith("v_dot")


def reads_lane_mask(base: str) -> bool:
    """True when the result depends on the lane beside the values of the lane's operands.

    Selects, carries and division steps take a bit of a mask for each lane; lane counts and
    exchanges look at others.
    """
    return base not in _PLAIN or base.startswith(("v_cndmask", "v_mbcnt"))


def describe_vector(base: str, encoding: str, operands: Operands) -> Effect | None:
    """Effect of a vector instruction, or None when it is not one that is understood."""
    if base == "v_nop":
        return Effect(base=base, encoding=encoding, operands=operands, unit=Unit.VALU)
    registers = [parse_registers(value) for value in operands.values]
    if len(registers) < 2:
        return None
    if MATRIX.fullmatch(base):
        return _describe_matrix(base, operands, registers)
    writes, reads, merges = _split_registers(base, registers)
    if not writes:
        return None
    if base in _KEEPS_UPPER_HALF or _keeps_part_of_destination(base, encoding, operands):
        merges = True
    if base in _DIVISION_STEPS:
        reads |= VCC
    return Effect(
        base=base,
        encoding=encoding,
        operands=operands,
        unit=Unit.VALU,
        reads=reads | EXEC | MODE | (writes if merges else 0),
        writes=writes,
        merges=merges,
    )


def _split_registers(base: str, registers: list[int]) -> tuple[int, int, bool]:
    """Written and read registers, and whether the destination is merged into."""
    first, rest = registers[0], registers[1:]
    if base in _PLAIN | _LANE_READS | _DIVISION_STEPS:
        return first, _union(rest), False
    if base in _MERGES or base == "v_writelane_b32":
        return first, _union(rest), True
    if base in _TWO_DESTINATIONS:
        return first | rest[0], _union(rest[1:]), False
    if base in _SWAPS:
        return first | rest[0], 0, True
    if not _COMPARE.fullmatch(base):
        return 0, 0, False
    exec_too = EXEC if base.startswith("v_cmpx") else 0
    return first | exec_too, _union(rest), False


def _union(sets: list[int]) -> int:
    found = 0
    for registers in sets:
        found |= registers
    return found


def _keeps_part_of_destination(base: str, encoding: str, operands: Operands) -> bool:
    """SDWA preserve, DPP with lanes left unwritten, op_sel that picks a half of the destination."""
    modifiers = operands.modifiers
    if encoding == "sdwa":
        return modifiers.get("dst_unused") == "UNUSED_PRESERVE"
    if encoding.endswith("dpp"):
        # A lane without a source is left as it was unless bound_ctrl makes it read zero, and
        # the masks switch off rows and banks (ISA guide, "DPP"). LLVM prints bound_ctrl:1.
        every_lane = (
            "bound_ctrl" in modifiers
            and modifiers.get("row_mask") == "0xf"
            and modifiers.get("bank_mask") == "0xf"
            # Broadcasts between rows have no source for the first rows.
            and "row_bcast" not in modifiers
        )
        return not every_lane
    packed = base.startswith(("v_pk_", "v_dot", "v_fma_mix_", "v_mfma", "v_smfmac"))
    return "op_sel" in modifiers and not packed


def _describe_matrix(base: str, operands: Operands, registers: list[int]) -> Effect | None:
    if len(registers) != (6 if base.startswith("v_mfma_scale") else 4):
        return None
    accumulates = base.startswith("v_smfmac")
    return Effect(
        base=base,
        encoding="",
        operands=operands,
        unit=Unit.MFMA,
        reads=_union(registers[1:]) | EXEC | MODE | (registers[0] if accumulates else 0),
        writes=registers[0],
        merges=accumulates,
    )
