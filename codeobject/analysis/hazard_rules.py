"""How many wait states must separate two instructions that the hardware does not interlock.

Numbers: what LLVM 22's GCNHazardRecognizer enforces on gfx90a, gfx942 and gfx950 (measured pair by
pair), and the CDNA3 ISA guide, sections 4.5 and 7.5. Where the two disagree the larger one stands
here, and LLVM's precautions that no ISA table asks for stand here too (`packed-result`,
`load-dpp`): a rule that asks for too much only keeps an edit from being proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from asmevo.codeobject.analysis.effect import Access, Effect, Unit
from asmevo.codeobject.analysis.matrix_hazards import find_matrix_hazards
from asmevo.codeobject.analysis.register import (
    EXEC,
    M0,
    SGPR_MASK,
    VECTOR_MASK,
    RegisterSet,
    parse_registers,
)
from asmevo.codeobject.analysis.vector_opcodes import TRANSCENDENTALS, is_dot

__all__ = ["SUPPORTED_ARCHS", "Requirement", "Traits", "find_requirements"]

SUPPORTED_ARCHS = ("gfx90a", "gfx942", "gfx950")
_LANE_READS = ("v_readlane_b32", "v_readfirstlane_b32")
_LANE_OPERATIONS = (*_LANE_READS, "v_writelane_b32")
_PACKED = ("v_pk_", "v_fma_mix", "v_dot2_", "v_dot4_", "v_dot8_")
# Conversions that fill a part of their destination; op_sel says which, so not all need it.
_PACKED_CONVERTS = re.compile(
    r"v_cvt_(?:pk|sr)_(?:fp8|bf8)_f32|v_cvt_sr_b?f16_f32|v_ashr_pk_[iu]8_i32"
    r"|v_cvt_scalef32_(?:sr_)?(?:pk_)?(?:fp8|bf8|fp4)_b?f(?:16|32)|v_cvt_scalef32_f16_(?:fp8|bf8)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Wait states that must lie between a producer and a consumer, and the rule that says so."""

    rule: str
    states: int


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What the hazard rules look at, worked out once per instruction."""

    effect: Effect

    @cached_property
    def is_valu(self) -> bool:
        """Vector arithmetic that is not a matrix operation."""
        return self.effect.unit is Unit.VALU

    @cached_property
    def is_matrix(self) -> bool:
        """MFMA or SMFMAC."""
        return self.effect.unit is Unit.MFMA

    @cached_property
    def is_memory(self) -> bool:
        """Vector memory or LDS."""
        return self.effect.unit in (Unit.VMEM, Unit.LDS)

    @cached_property
    def vector_writes(self) -> RegisterSet:
        """Vector registers written."""
        return self.effect.writes & VECTOR_MASK

    @cached_property
    def vector_reads(self) -> RegisterSet:
        """Vector registers read."""
        return self.effect.reads & VECTOR_MASK

    @cached_property
    def scalar_writes(self) -> RegisterSet:
        """Scalar registers written by vector arithmetic, VCC among them."""
        return self.effect.writes & SGPR_MASK if self.is_valu else 0

    @cached_property
    def is_transcendental(self) -> bool:
        """Runs on the quarter-rate unit."""
        return self.effect.base in TRANSCENDENTALS

    @cached_property
    def is_dpp(self) -> bool:
        """Takes its first source from other lanes."""
        return self.effect.encoding.endswith("dpp")

    @cached_property
    def vector_touches(self) -> RegisterSet:
        """Vector registers read or written."""
        return self.vector_reads | self.vector_writes

    @cached_property
    def is_valu_to_llvm(self) -> bool:
        """Vector arithmetic, or LDS-DMA, which LLVM's hazard rules take for it."""
        memory = self.effect.memory
        return self.is_valu or (memory is not None and memory.writes_lds)

    @cached_property
    def lane_select(self) -> RegisterSet:
        """The register that picks a lane."""
        if self.effect.base not in ("v_readlane_b32", "v_writelane_b32"):
            return 0
        return parse_registers(self.effect.operands.values[2])

    @cached_property
    def sends_m0(self) -> bool:
        """Takes M0 as an address or a message, outside the scalar unit."""
        return self.is_memory or self.effect.base == "s_sendmsg"

    @cached_property
    def shifts_destination(self) -> bool:
        """Moves bits within the result: its late forwarding path is the hazard."""
        modifiers = self.effect.operands.modifiers
        if self.effect.encoding == "sdwa":
            return modifiers.get("dst_sel", "DWORD") != "DWORD"
        if _PACKED_CONVERTS.fullmatch(self.effect.base):
            return True
        op_sel = modifiers.get("op_sel", "")
        packed = self.effect.base.startswith(("v_pk_", "v_dot", "v_mfma", "v_fma_mix", "v_mad_mix"))
        return op_sel.endswith(",1]") and not packed

    @cached_property
    def is_packed(self) -> bool:
        """Packed arithmetic of the VOP3P encoding."""
        return self.is_valu and self.effect.base.startswith(_PACKED)

    @cached_property
    def wide_store_data(self) -> RegisterSet:
        """Data registers of a store of more than 64 bits that are read after issue."""
        effect = self.effect
        memory = effect.memory
        if memory is None or effect.unit is not Unit.VMEM or memory.access is Access.LOAD:
            return 0
        is_wide = memory.size > 8 or (memory.size == 8 and "cmpswap" in effect.base)
        if not is_wide:
            return 0
        if effect.base.startswith("buffer") and parse_registers(effect.operands.values[3]):
            return 0
        return effect.reads & VECTOR_MASK & ~memory.address_registers

    @cached_property
    def triggers(self) -> RegisterSet:
        """Registers of which a consumer must touch one for any rule behind this producer."""
        if self.is_matrix:
            # Rules behind DGEMM look at the kind of the consumer alone.
            is_double = "_f64" in self.effect.base
            return -1 if is_double else self.effect.writes | self.vector_reads
        if self.is_memory:
            return self.wide_store_data | self.vector_writes
        return self.effect.writes

    @cached_property
    def touches(self) -> RegisterSet:
        """Registers through which this consumer may meet a producer."""
        effect = self.effect
        return effect.reads | effect.writes | (EXEC if effect.unit is Unit.VMEM else 0)

    @cached_property
    def reach(self) -> int:
        """No rule asks this producer for more wait states than that."""
        if self.is_matrix:
            return 20
        if self.is_valu:
            return 5
        if self.wide_store_data or self.effect.base.startswith("s_setreg"):
            return 2
        if self.is_memory and self.vector_writes:
            return 2
        return 1 if self.effect.writes & M0 else 0


def find_requirements(producer: Traits, consumer: Traits, arch: str) -> Iterator[Requirement]:
    """All rules that hold between the two, in program order, on this chip."""
    if producer.is_matrix:
        for rule, states in find_matrix_hazards(producer.effect, consumer.effect, arch):
            yield Requirement(rule=rule, states=states)
    elif producer.is_valu:
        yield from _scalar_results(producer, consumer, arch)
        yield from _vector_results(producer, consumer, arch)
    elif producer.is_memory:
        overwrites = consumer.is_valu or consumer.is_matrix
        if overwrites and producer.wide_store_data & consumer.vector_writes:
            yield Requirement(rule="wide-store-data", states=1 if arch == "gfx90a" else 2)
        # LLVM spaces DPP from any definition of any operand, not only from the VALU's.
        if consumer.is_dpp and producer.vector_writes & consumer.vector_touches:
            yield Requirement(rule="load-dpp", states=2)
    elif producer.effect.base.startswith("s_setreg"):
        if consumer.effect.base.startswith(("s_setreg", "s_getreg")):
            yield Requirement(rule="setreg", states=2)
    elif producer.effect.writes & M0 and consumer.effect.reads & M0 and consumer.sends_m0:
        yield Requirement(rule="m0", states=1)


def _scalar_results(producer: Traits, consumer: Traits, arch: str) -> Iterator[Requirement]:
    """VALU writes an SGPR, VCC or EXEC."""
    base = consumer.effect.base
    if producer.effect.writes & EXEC:
        if base in _LANE_OPERATIONS or consumer.is_matrix or base.startswith("v_permlane"):
            yield Requirement(rule="valu-exec-lane", states=4)
        if consumer.is_dpp:
            yield Requirement(rule="valu-exec-dpp", states=5)
        if consumer.effect.unit is Unit.VMEM:
            # LLVM takes EXEC for one of the scalar registers that the access reads.
            yield Requirement(rule="valu-exec-vmem", states=5)
    shared = producer.scalar_writes & consumer.effect.reads
    if not shared:
        return
    if consumer.effect.unit is Unit.VMEM:
        yield Requirement(rule="valu-sgpr-vmem", states=5)
    if producer.scalar_writes & consumer.lane_select:
        yield Requirement(rule="valu-sgpr-lane-select", states=4)
    if base.startswith("v_div_fmas"):
        yield Requirement(rule="valu-vcc-div-fmas", states=4)
    if consumer.is_valu and arch != "gfx90a":
        yield Requirement(rule="valu-sgpr-valu", states=2)


def _vector_results(producer: Traits, consumer: Traits, arch: str) -> Iterator[Requirement]:
    """VALU writes a VGPR or AGPR."""
    base = consumer.effect.base
    written = producer.vector_writes
    touched = written & consumer.vector_touches
    if not touched:
        return
    if is_dot(producer.effect.base):
        yield from _dot_results(producer, consumer)
    if consumer.is_dpp:
        # The hardware asks for it for the source from other lanes, LLVM for every operand.
        yield Requirement(rule="valu-dpp", states=2)
    if base.startswith("v_permlane"):
        yield Requirement(rule="valu-permlane", states=2)
    is_read = bool(written & consumer.vector_reads)
    if consumer.is_matrix and is_read:
        yield Requirement(rule="valu-mfma", states=2)
    if arch == "gfx90a" or not (consumer.is_valu_to_llvm or consumer.is_matrix):
        return
    if base in _LANE_READS and is_read:
        yield Requirement(rule="valu-readlane", states=1)
    if producer.is_transcendental and not consumer.is_transcendental and is_read:
        yield Requirement(rule="transcendental", states=1)
    if producer.shifts_destination:
        yield Requirement(rule="destination-shift", states=1)
    if producer.is_packed:
        # LLVM takes the default op_sel_hi for a shifted destination: the same bit of the encoding.
        yield Requirement(rule="packed-result", states=1)


def _dot_results(producer: Traits, consumer: Traits) -> Iterator[Requirement]:
    written = producer.vector_writes
    if producer.effect.base == consumer.effect.base:
        # The accumulator is forwarded.
        values = consumer.effect.operands.values
        if not written & (parse_registers(values[1]) | parse_registers(values[2])):
            return
    yield Requirement(rule="dot", states=3)
