"""What kinds of values a kernel stores, and through which of its arguments.

A code object does not say what a pointer points to. What its stores write does: the data register
of a store was last written by instructions whose names say f32, f16, bf16 or integer. The values of
registers are followed through the kernel, as kinds and as the kernel arguments that they were
computed from. Where paths disagree, or a value comes from memory, the answer is `OPAQUE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from asmevo.codeobject.analysis.control_flow import Program
from asmevo.codeobject.analysis.effect import Access, Effect, Space
from asmevo.codeobject.analysis.register import iterate_registers, parse_registers
from asmevo.codeobject.analysis.value_kind import (
    CONSTANT,
    EXCHANGES,
    Value,
    ValueKind,
    copied_operand,
    join_kinds,
    kind_of_result,
)
from asmevo.codeobject.code_object import Kernel
from asmevo.codeobject.descriptor import KernelDescriptor

__all__ = ["Store", "StoreFacts", "StoredType", "analyse_stores"]

_KERNARG = -1
"""Stands for the kernarg pointer among the arguments that a value was computed from."""
_MAX_ROUNDS = 64
# kernel_code_properties, LLVM AMDGPUUsage "Kernel Descriptor"; SGPRs are set in this order.
_BEFORE_KERNARG = ((1 << 0, 4), (1 << 1, 2), (1 << 2, 2))
_KERNARG_BIT = 1 << 3
_AFTER_KERNARG = ((1 << 4, 2), (1 << 5, 2), (1 << 6, 1))

State = dict[int, Value]


class StoredType(StrEnum):
    """Type of the elements that a store writes."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I32 = "i32"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One store or atomic to global memory."""

    id: int
    type: StoredType
    arguments: frozenset[int]
    """Byte offsets of the kernel arguments that the address was computed from; empty if unknown."""
    is_float_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """All stores of a kernel, and which bytes of its argument segment it reads."""

    stores: tuple[Store, ...]
    kernarg_dwords: frozenset[int]
    """Byte offsets of the dwords that scalar loads or the preload read."""
    reads_kernarg_elsewhere: bool
    """True when the segment is also read in a way that does not show which bytes."""


@dataclass(slots=True)
class _Found:
    """What the walk over the instructions collects."""

    stores: dict[int, Store] = field(default_factory=dict)
    kernarg_dwords: set[int] = field(default_factory=set)
    reads_kernarg_elsewhere: bool = False
    lds: ValueKind | None = None
    """Kinds of everything that is written to LDS, joined."""


def analyse_stores(program: Program, kernel: Kernel) -> StoreFacts:
    """Follow values to the stores of a kernel."""
    found = _Found()
    start = _start_state(kernel.fields, found)
    for _ in range(_MAX_ROUNDS):
        before = found.lds
        _run_to_fixpoint(program, start, found)
        if found.lds is before:
            break
    return StoreFacts(
        stores=tuple(found.stores.values()),
        kernarg_dwords=frozenset(found.kernarg_dwords),
        reads_kernarg_elsewhere=found.reads_kernarg_elsewhere,
    )


def _start_state(fields: KernelDescriptor, found: _Found) -> State:
    at = sum(size for bit, size in _BEFORE_KERNARG if fields.properties & bit)
    state: State = {}
    if fields.properties & _KERNARG_BIT:
        for register in (at, at + 1):
            state[register] = Value(kind=ValueKind.KERNARG_POINTER, arguments=frozenset({_KERNARG}))
        at += 2
    at += sum(size for bit, size in _AFTER_KERNARG if fields.properties & bit)
    for dword in range(fields.preload_length):
        offset = 4 * (fields.preload_offset + dword)
        state[at + dword] = Value(kind=ValueKind.OPAQUE, arguments=frozenset({offset}))
        found.kernarg_dwords.add(offset)
    return state


def _run_to_fixpoint(program: Program, start: State, found: _Found) -> None:
    entry_states: dict[int, State] = {entry: dict(start) for entry in program.entries}
    pending = list(program.entries)
    position_in_order = {index: at for at, index in enumerate(program.order)}
    visits = dict.fromkeys(program.order, 0)
    while pending:
        pending.sort(key=position_in_order.__getitem__, reverse=True)
        index = pending.pop()
        visits[index] += 1
        state = dict(entry_states[index])
        block = program.blocks[index]
        for position in range(block.start, block.end):
            _step(program, position, state, found)
        for successor in block.successors:
            if _merge(entry_states, successor, state) and successor not in pending:
                pending.append(successor)


def _merge(states: dict[int, State], index: int, incoming: State) -> bool:
    """Join into the state at the start of a block; true when that changed it."""
    known = states.get(index)
    if known is None:
        states[index] = dict(incoming)
        return True
    changed = False
    for register, value in incoming.items():
        before = known.get(register)
        now = value if before is None else before.join(value)
        if now != before:
            known[register] = now
            changed = True
    return changed


def _step(program: Program, position: int, state: State, found: _Found) -> None:
    effect = program.effects[position]
    if effect.memory is not None:
        _access_memory(program, position, effect, state, found)
        return
    if not effect.writes:
        return
    for register, value in _results(effect, state, found):
        state[register] = value


def _results(effect: Effect, state: State, found: _Found) -> Iterator[tuple[int, Value]]:
    targets = list(iterate_registers(effect.writes))
    copied = copied_operand(effect)
    if copied is not None:
        sources = list(iterate_registers(parse_registers(copied)))
        if not sources:
            yield from ((target, CONSTANT) for target in targets)
            return
        if len(sources) == len(targets):
            values = [state.get(source, CONSTANT) for source in sources]
            yield from zip(targets, values, strict=True)
            return
    arguments = _join_arguments(effect.reads, state)
    first = 0 if effect.base.startswith(EXCHANGES) else 1
    operands = [_operand_kind(text, state) for text in effect.operands.values[first:]]
    kind = kind_of_result(effect, operands)
    if kind is not ValueKind.INTEGER:
        arguments = frozenset()
    value = Value(kind=kind, arguments=arguments)
    yield from ((target, value) for target in targets)


def _operand_kind(text: str, state: State) -> ValueKind | None:
    """Kind of an operand; None for a constant."""
    kind: ValueKind | None = None
    for register in iterate_registers(parse_registers(text)):
        if register in state:
            kind = join_kinds(kind, state[register].kind)
    return kind


def _access_memory(
    program: Program, position: int, effect: Effect, state: State, found: _Found
) -> None:
    access = effect.memory
    assert access is not None
    if access.space is Space.CONSTANT:
        _load_scalar(effect, state, found)
        return
    address = _join_arguments(access.address_registers, state)
    if access.access is Access.LOAD and _KERNARG in address:
        found.reads_kernarg_elsewhere = True
    if access.space is Space.LDS and access.access is not Access.LOAD:
        for text in effect.operands.values[1:]:
            found.lds = join_kinds(found.lds, _operand_kind(text, state))
    elif access.space in (Space.GLOBAL, Space.FLAT) and access.access is not Access.LOAD:
        _note_store(program, position, effect, state, found)
    kind = ValueKind.OPAQUE
    if access.space is Space.LDS and found.lds is not None:
        kind = found.lds
    for register in iterate_registers(effect.loaded):
        state[register] = Value(kind=kind, arguments=frozenset())


def _load_scalar(effect: Effect, state: State, found: _Found) -> None:
    values = effect.operands.values
    base = [state.get(register) for register in iterate_registers(parse_registers(values[1]))]
    targets = list(iterate_registers(effect.loaded or effect.writes))
    offset = _immediate(values[2]) if len(values) > 2 else 0
    is_kernarg = all(one is not None and one.kind is ValueKind.KERNARG_POINTER for one in base)
    if is_kernarg and offset is not None:
        for index, register in enumerate(targets):
            at = offset + 4 * index
            found.kernarg_dwords.add(at)
            state[register] = Value(kind=ValueKind.OPAQUE, arguments=frozenset({at}))
        return
    if any(one is not None and _KERNARG in one.arguments for one in base):
        found.reads_kernarg_elsewhere = True
    for register in targets:
        state[register] = Value(kind=ValueKind.OPAQUE, arguments=frozenset())


def _immediate(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _join_arguments(registers: int, state: State) -> frozenset[int]:
    known = (state[register] for register in iterate_registers(registers) if register in state)
    return frozenset[int]().union(*(value.arguments for value in known))


def _note_store(
    program: Program, position: int, effect: Effect, state: State, found: _Found
) -> None:
    access = effect.memory
    assert access is not None
    if access.access is Access.CACHE:
        return
    identifier = program.instructions[position].id
    arguments = _join_arguments(access.address_registers, state) - {_KERNARG}
    if access.access is Access.ATOMIC:
        stored, is_float = _atomic_type(effect.base)
    else:
        stored, is_float = _stored_type(effect, state), False
    found.stores[identifier] = Store(
        id=identifier, type=stored, arguments=arguments, is_float_atomic=is_float
    )


_ATOMIC_TYPES = {
    "_pk_add_f16": StoredType.F16,
    "_pk_add_bf16": StoredType.BF16,
    "_f32": StoredType.F32,
    "_f64": StoredType.F64,
}


def _atomic_type(base: str) -> tuple[StoredType, bool]:
    for suffix, stored in _ATOMIC_TYPES.items():
        if base.endswith(suffix):
            return stored, True
    # A compare-and-swap loop may add floats just as well.
    if "cmpswap" in base:
        return StoredType.OPAQUE, False
    return (StoredType.OPAQUE if base.endswith("_x2") else StoredType.I32), False


_WHOLE = {
    ValueKind.F64: StoredType.F64,
    ValueKind.F32: StoredType.F32,
    ValueKind.PACKED_F16: StoredType.F16,
    ValueKind.PACKED_BF16: StoredType.BF16,
    ValueKind.INTEGER: StoredType.I32,
}
_LOW_HALF = {
    ValueKind.F16: StoredType.F16,
    ValueKind.PACKED_F16: StoredType.F16,
    ValueKind.BF16: StoredType.BF16,
    ValueKind.PACKED_BF16: StoredType.BF16,
}
_HIGH_HALF = {
    ValueKind.ROUNDED_BF16: StoredType.BF16,
    ValueKind.PACKED_BF16: StoredType.BF16,
    ValueKind.PACKED_F16: StoredType.F16,
}


def _stored_type(effect: Effect, state: State) -> StoredType:
    data = effect.operands.values[0 if effect.base.startswith("buffer_") else 1]
    kind = _operand_kind(data, state)
    if kind is None or "_byte" in effect.base:
        return StoredType.OPAQUE
    if "_short" in effect.base:
        table = _HIGH_HALF if "d16_hi" in effect.base else _LOW_HALF
        return table.get(kind, StoredType.OPAQUE)
    return _WHOLE.get(kind, StoredType.OPAQUE)
