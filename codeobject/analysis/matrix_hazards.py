"""Wait states behind matrix operations; the rest of the rules is in `hazard_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from asmevo.codeobject.analysis.effect import Effect, Unit
from asmevo.codeobject.analysis.register import RegisterSet, parse_registers
from asmevo.codeobject.analysis.vector_opcodes import MATRIX

__all__ = ["MatrixKind", "MatrixOperation", "find_matrix_hazards", "read_matrix_operation"]


class MatrixKind(StrEnum):
    """The three matrix pipelines differ in their hazards."""

    XDL = "xdl"
    SGEMM = "sgemm"
    DGEMM = "dgemm"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixOperation:
    """A matrix instruction taken apart."""

    kind: MatrixKind
    passes: int
    """Of four cycles each."""
    destination: RegisterSet
    factors: RegisterSet
    """A, B and, for SMFMAC, the index."""
    accumulator: RegisterSet
    """C; for SMFMAC the destination."""


def read_matrix_operation(effect: Effect, arch: str) -> MatrixOperation:
    """Pipeline, passes and operands of a matrix instruction."""
    return _read(effect.base, effect.operands.values, arch)


@lru_cache(maxsize=16384)
def _read(base: str, values: tuple[str, ...], arch: str) -> MatrixOperation:
    match = MATRIX.fullmatch(base)
    if match is None:
        raise ValueError(f"{base} is not a matrix instruction")
    destination, first, second, third = (parse_registers(value) for value in values[:4])
    accumulates = match["kind"] == "smfmac"
    scales = parse_registers(" ".join(values[4:]))
    kind = {"f32": MatrixKind.SGEMM, "f64": MatrixKind.DGEMM}.get(match["type"], MatrixKind.XDL)
    return MatrixOperation(
        kind=kind,
        passes=_count_passes(match["m"], match["k"], match["blocks"], match["type"], arch),
        destination=destination,
        factors=first | second | scales | (third if accumulates else 0),
        accumulator=destination if accumulates else third,
    )


def _count_passes(rows: str, depth: str, blocks: str | None, kind: str, arch: str) -> int:
    """AMD matrix instruction calculator and LLVM's SISchedule.td agree on these."""
    if rows == "4":
        return 4 if kind == "f64" else 2
    if kind == "f64":
        return 16 if arch == "gfx950" else 8
    if kind == "f8f6f4":
        # Twice as long when a factor is of 8 bits, which the format modifiers say: the longer is
        # safe.
        return 16 if rows == "32" else 8
    # Multi-block shapes and, before gfx940, the small-depth shapes take as long as their results
    # are many.
    full_rate_depth = {"f32": 0, "xf32": 4, "f16": 8, "bf16": 8, "bf16_1k": 8}.get(kind, 16)
    if rows == "32":
        quick = (
            arch != "gfx90a" and not blocks and full_rate_depth and int(depth) >= full_rate_depth
        )
        return 8 if quick else 16
    full_rate_depth *= 2
    quick = arch != "gfx90a" and not blocks and full_rate_depth and int(depth) >= full_rate_depth
    return 4 if quick else 8


def find_matrix_hazards(producer: Effect, consumer: Effect, arch: str) -> Iterator[tuple[str, int]]:
    """Rules and wait states between a matrix operation and a later instruction."""
    first = read_matrix_operation(producer, arch)
    if consumer.unit is Unit.MFMA:
        yield from _matrix_after_matrix(first, producer, consumer, arch)
        return
    is_memory = consumer.unit in (Unit.VMEM, Unit.LDS)
    if is_memory and first.kind is MatrixKind.DGEMM and arch == "gfx90a":
        # Asked for when the DGEMM stands between vector arithmetic and an access that reads its
        # result; that is the shortest such distance.
        yield "dgemm-memory", 1
    if is_memory and first.destination & consumer.reads:
        yield "mfma-memory-read", _result_states(first, arch, memory=True)
    if consumer.unit is Unit.VALU and first.destination & consumer.reads:
        yield "mfma-valu-read", _result_states(first, arch)
    if first.destination & consumer.writes:
        yield "mfma-overwrite", _result_states(first, arch)
    # Before gfx940 one pipeline runs f32 and the small types alike.
    reads_late = first.kind is MatrixKind.XDL or (
        first.kind is MatrixKind.SGEMM and arch == "gfx90a"
    )
    if first.accumulator & consumer.writes and reads_late:
        yield "mfma-accumulator-overwrite", first.passes - 1
    if first.kind is MatrixKind.DGEMM and consumer.base in ("v_fma_f64", "v_fmac_f64"):
        yield "dgemm-fma", 2


def _result_states(first: MatrixOperation, arch: str, *, memory: bool = False) -> int:
    if first.kind is MatrixKind.DGEMM:
        if first.passes == 4:
            return 9 if memory else 6
        return 18 if memory else first.passes + 3
    if first.kind is MatrixKind.SGEMM and arch != "gfx90a":
        return first.passes + 2
    return first.passes + (4 if arch == "gfx950" and first.passes > 2 else 3)


def _matrix_after_matrix(
    first: MatrixOperation, producer: Effect, consumer: Effect, arch: str
) -> Iterator[tuple[str, int]]:
    second = read_matrix_operation(consumer, arch)
    if first.destination & second.factors:
        yield "mfma-factor", _result_states(first, arch)
    if not first.destination & (second.accumulator | second.destination):
        return
    overlap = _overlap_states(first, arch)
    if first.destination == second.accumulator:
        if producer.base == consumer.base:
            # The ordinary accumulation chain forwards inside the pipeline.
            if first.kind is MatrixKind.DGEMM:
                yield "mfma-chain", 4 if first.passes == 4 else 0
            else:
                yield "mfma-chain", 2 if first.passes == 2 else 0
        else:
            # LLVM 22 asks for nothing here; the ISA asks for the overlap count (llvm-project
            # #218363).
            yield "mfma-chain-other-opcode", overlap
    elif first.destination & second.accumulator:
        yield "mfma-overlap", overlap
    elif first.destination & second.destination:
        yield "mfma-matrix-overwrite", overlap


def _overlap_states(first: MatrixOperation, arch: str) -> int:
    if first.kind is MatrixKind.DGEMM:
        return 4 if first.passes == 4 else first.passes + 1
    if first.kind is MatrixKind.SGEMM and arch != "gfx90a":
        return first.passes
    return first.passes + (2 if arch == "gfx950" else 1)
