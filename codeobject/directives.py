"""A kernel descriptor as `.amdhsa_` directives, or as its bytes where no directives express it.

Bit positions: LLVM AMDGPUUsage "Kernel Descriptor" and "compute_pgm_rsrc1/2/3". The directives are
a proposal: recovery assembles them, compares the 64 bytes and falls back to the raw form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.descriptor import KernelDescriptor
from asmevo.codeobject.metadata_text import emit_bytes
from asmevo.codeobject.symbol_name import quote_symbol
from asmevo.codeobject.target import HAS_ARCHITECTED_FLAT_SCRATCH, HAS_UNIFIED_REGISTERS

__all__ = ["emit_descriptor"]

# (bit, width, directive); a field of value `default` is left out.
_RSRC1: Final = (
    (12, 2, "float_round_mode_32", 0),
    (14, 2, "float_round_mode_16_64", 0),
    (16, 2, "float_denorm_mode_32", 0),
    (18, 2, "float_denorm_mode_16_64", 3),
    (21, 1, "dx10_clamp", 1),
    (23, 1, "ieee_mode", 1),
    (26, 1, "fp16_overflow", 0),
)
_RSRC2: Final = (
    (7, 1, "system_sgpr_workgroup_id_x", 1),
    (8, 1, "system_sgpr_workgroup_id_y", 0),
    (9, 1, "system_sgpr_workgroup_id_z", 0),
    (10, 1, "system_sgpr_workgroup_info", 0),
    (11, 2, "system_vgpr_workitem_id", 0),
    (24, 1, "exception_fp_ieee_invalid_op", 0),
    (25, 1, "exception_fp_denorm_src", 0),
    (26, 1, "exception_fp_ieee_div_zero", 0),
    (27, 1, "exception_fp_ieee_overflow", 0),
    (28, 1, "exception_fp_ieee_underflow", 0),
    (29, 1, "exception_fp_ieee_inexact", 0),
    (30, 1, "exception_int_div_zero", 0),
)
_PROPERTIES: Final = (
    (0, 1, "user_sgpr_private_segment_buffer", 0),
    (1, 1, "user_sgpr_dispatch_ptr", 0),
    (2, 1, "user_sgpr_queue_ptr", 0),
    (3, 1, "user_sgpr_kernarg_segment_ptr", 0),
    (4, 1, "user_sgpr_dispatch_id", 0),
    (5, 1, "user_sgpr_flat_scratch_init", 0),
    (6, 1, "user_sgpr_private_segment_size", 0),
    (10, 1, "wavefront_size32", 0),
    (11, 1, "uses_dynamic_stack", 0),
)
_SGPR_LIMIT: Final = 102


def emit_descriptor(kernel: Kernel, source: CodeObject, *, raw: bool) -> Iterator[str]:
    """Lines that put the descriptor at the current place."""
    if raw:
        yield from _emit_raw(kernel, source)
        return
    yield f"\t.amdhsa_kernel {quote_symbol(kernel.symbol.removesuffix('.kd'))}"
    for name, value in _directives(kernel.fields, source):
        yield f"\t\t.amdhsa_{name} {value}"
    yield "\t.end_amdhsa_kernel"


def _directives(fields: KernelDescriptor, source: CodeObject) -> Iterator[tuple[str, int]]:
    target = source.target
    has_architected = target in HAS_ARCHITECTED_FLAT_SCRATCH
    yield "group_segment_fixed_size", fields.group_segment_size
    yield "private_segment_fixed_size", fields.private_segment_size
    yield "kernarg_size", fields.kernarg_size
    yield "user_sgpr_count", fields.user_sgpr_count
    yield from _bit_fields(fields.properties, _PROPERTIES)
    if fields.preload:
        yield "user_sgpr_kernarg_preload_length", fields.preload_length
        yield "user_sgpr_kernarg_preload_offset", fields.preload_offset
    scratch = (
        "enable_private_segment"
        if has_architected
        else ("system_sgpr_private_segment_wavefront_offset")
    )
    yield from _bit_fields(fields.rsrc2, ((0, 1, scratch, 0), *_RSRC2))
    yield from _registers(fields, source)
    yield from _bit_fields(fields.rsrc1, _RSRC1)
    if target in HAS_UNIFIED_REGISTERS:
        yield from _bit_fields(fields.rsrc3, ((16, 1, "tg_split", 0),))


def _registers(fields: KernelDescriptor, source: CodeObject) -> Iterator[tuple[str, int]]:
    """Register counts that give the same granules; LLVM adds the reserved SGPRs to the count
    itself."""
    target = source.target
    if target in HAS_UNIFIED_REGISTERS:
        yield "next_free_vgpr", fields.allocated_vgprs
        yield "accum_offset", fields.accum_offset
    else:
        granule = 4 if target.startswith("gfx9") else 8
        yield "next_free_vgpr", ((fields.rsrc1 & 0x3F) + 1) * granule
    yield "reserve_vcc", 0
    extra = 0
    if target in HAS_ARCHITECTED_FLAT_SCRATCH:
        extra = 6
    elif target.startswith("gfx9"):
        yield "reserve_flat_scratch", 0
        extra = 4 if source.xnack in ("any", "on") else 0
    sgprs = max(0, fields.allocated_sgprs - extra)
    yield "next_free_sgpr", min(_SGPR_LIMIT, sgprs) if target.startswith("gfx9") else _SGPR_LIMIT


def _bit_fields(
    word: int, layout: tuple[tuple[int, int, str, int], ...]
) -> Iterator[tuple[str, int]]:
    for bit, width, name, default in layout:
        value = word >> bit & ((1 << width) - 1)
        if value != default:
            yield name, value


def _emit_raw(kernel: Kernel, source: CodeObject) -> Iterator[str]:
    code, name = (quote_symbol(one) for one in (kernel.symbol.removesuffix(".kd"), kernel.symbol))
    symbols = {one.name: one for one in (*source.dynamic_symbols, *source.symbols)}
    visibility = symbols[kernel.symbol].visibility
    if visibility in ("STV_PROTECTED", "STV_HIDDEN"):
        yield f"\t.{visibility[4:].lower()} {name}"
    yield f"\t.type {name},@object"
    yield f"{name}:"
    yield f"\t.size {name}, 64"
    yield from emit_bytes(kernel.descriptor[:16])
    yield f"\t.quad {code}-{name}"
    yield from emit_bytes(kernel.descriptor[24:])
