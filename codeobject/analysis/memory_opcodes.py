"""Vector memory of gfx9: MUBUF, FLAT, GLOBAL, SCRATCH and LDS instructions."""

from __future__ import annotations

import re

from asmevo.codeobject.analysis.effect import Access, Effect, MemoryAccess, Space, Unit
from asmevo.codeobject.analysis.operand import Operands
from asmevo.codeobject.analysis.register import EXEC, FLAT_SCRATCH, M0, MODE, parse_registers

__all__ = ["describe_memory"]

_SIZES = {
    "ubyte": 1,
    "sbyte": 1,
    "byte": 1,
    "ushort": 2,
    "sshort": 2,
    "short": 2,
    "dword": 4,
    "dwordx2": 8,
    "dwordx3": 12,
    "dwordx4": 16,
}
_VECTOR_MEMORY = re.compile(
    r"(?P<space>buffer|flat|global|scratch)_(?P<access>load|store)_(?P<lds>lds_)?"
    r"(?P<size>" + "|".join(sorted(_SIZES, key=len, reverse=True)) + r")"
    r"(?P<half>_d16(?:_hi)?)?"
)
_VECTOR_ATOMIC = re.compile(
    r"(?P<space>buffer|flat|global)_atomic_(?P<operation>swap|cmpswap|add|sub|smin|umin|smax|umax"
    r"|and|or|xor|inc|dec|add_f32|add_f64|min_f64|max_f64|pk_add_f16|pk_add_bf16)(?P<wide>_x2)?"
)
_CACHE = frozenset(
    {"buffer_wbl2", "buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol"}
)
_SPACES = {
    "buffer": Space.GLOBAL,
    "global": Space.GLOBAL,
    "flat": Space.FLAT,
    "scratch": Space.SCRATCH,
}
_COHERENT = ("sc0", "sc1", "glc", "slc")

_LDS_READ = re.compile(
    r"ds_read(?:2(?:st64)?)?_(?P<size>b32|b64|b96|b128|[ui]8|[ui]16|b64_tr_b16|b64_tr_b8"
    r"|b64_tr_b4|b96_tr_b6)(?P<half>_d16(?:_hi)?)?"
)
_LDS_WRITE = re.compile(
    r"ds_write(?:2(?:st64)?)?_(?P<size>b8|b16|b32|b64|b96|b128)(?P<half>_d16_hi)?"
)
_LDS_ATOMIC = re.compile(
    r"ds_(?P<operation>add|sub|rsub|inc|dec|min|max|and|or|xor|wrxchg|cmpst|pk_add)"
    r"(?P<returns>_rtn)?_(?P<kind>[ui]32|[ui]64|b32|b64|f32|f64|f16|bf16)"
)
_LDS_LANES = frozenset({"ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32"})


def describe_memory(base: str, operands: Operands) -> Effect | None:
    """Effect of a vector memory or LDS instruction, or None when it is not understood."""
    if base.startswith("ds_"):
        return _describe_lds(base, operands)
    if base in _CACHE:
        return _cache_control(base, operands)
    if match := _VECTOR_MEMORY.fullmatch(base):
        return _describe_vector_memory(base, operands, match)
    if match := _VECTOR_ATOMIC.fullmatch(base):
        return _describe_vector_atomic(base, operands, match)
    return None


def _effect(
    base: str,
    operands: Operands,
    memory: MemoryAccess | None,
    *,
    reads: int,
    loaded: int = 0,
    merges: bool = False,
) -> Effect:
    is_flat = memory is not None and memory.space is Space.FLAT
    is_lds = base.startswith("ds_")
    return Effect(
        base=base,
        encoding="",
        operands=operands,
        unit=Unit.LDS if is_lds else Unit.VMEM,
        reads=reads | EXEC | (loaded if merges else 0),
        writes=loaded,
        loaded=loaded,
        merges=merges,
        memory=memory,
        counts_vm=not is_lds,
        counts_lgkm=is_lds or is_flat,
    )


def _cache_control(base: str, operands: Operands) -> Effect:
    return Effect(
        base=base,
        encoding="",
        operands=operands,
        unit=Unit.VMEM,
        counts_vm=True,
        is_pinned=True,
        memory=MemoryAccess(
            space=Space.GLOBAL,
            access=Access.CACHE,
            address_registers=0,
            size=0,
            is_ordered=True,
        ),
    )


def _describe_vector_memory(base: str, operands: Operands, match: re.Match[str]) -> Effect | None:
    space, is_load = match["space"], match["access"] == "load"
    to_lds = bool(match["lds"]) or "lds" in operands.modifiers
    values = operands.values
    expected = {"buffer": 3, "flat": 1}.get(space, 2) + (0 if to_lds else 1)
    if len(values) != expected:
        return None
    # Stores print the address first, except buffer stores, which print the data first.
    if to_lds:
        data, address = "", values
    elif is_load or space == "buffer":
        data, address = values[0], values[1:]
    elif space == "flat":
        data, address = values[1], values[:1]
    else:
        data, address = values[1], (values[0], *values[2:])
    data_registers = parse_registers(data)
    address_registers = _union(address)
    implicit = FLAT_SCRATCH if space in ("flat", "scratch") else 0
    memory = MemoryAccess(
        space=_SPACES[space],
        access=Access.LOAD if is_load else Access.STORE,
        address_registers=address_registers,
        size=_SIZES[match["size"]],
        is_ordered=any(flag in operands.modifiers for flag in _COHERENT),
        writes_lds=to_lds,
    )
    reads = address_registers | implicit | (M0 if to_lds else 0)
    if not is_load:
        return _effect(base, operands, memory, reads=reads | data_registers)
    return _effect(
        base, operands, memory, reads=reads, loaded=data_registers, merges=bool(match["half"])
    )


def _describe_vector_atomic(base: str, operands: Operands, match: re.Match[str]) -> Effect | None:
    space, values = match["space"], operands.values
    returns = "sc0" in operands.modifiers or "glc" in operands.modifiers
    plain = {"buffer": 4, "flat": 2}.get(space, 3)
    extra = 1 if returns and space != "buffer" else 0
    if len(values) != plain + extra:
        return None
    if space == "buffer":
        address = values[1:]
    elif space == "flat":
        address = values[extra : extra + 1]
    else:
        address = (values[extra], values[-1])
    loaded = parse_registers(values[0]) if returns else 0
    if space == "buffer" and match["operation"] == "cmpswap":
        # The old value comes back over the first half of the data: what is stored, not compared.
        loaded = _lower_half(loaded)
    implicit = FLAT_SCRATCH if space == "flat" else 0
    wide = bool(match["wide"]) or match["operation"].endswith("f64")
    memory = MemoryAccess(
        space=_SPACES[space],
        access=Access.ATOMIC,
        address_registers=_union(address),
        size=8 if wide else 4,
        is_ordered=True,
    )
    sources = values if space == "buffer" else values[extra:]
    return _effect(base, operands, memory, reads=_union(sources) | implicit, loaded=loaded)


def _lower_half(registers: int) -> int:
    first = (registers & -registers).bit_length() - 1
    return registers & ((1 << (first + registers.bit_count() // 2)) - 1) if registers else 0


def _union(texts: tuple[str, ...]) -> int:
    found = 0
    for text in texts:
        found |= parse_registers(text)
    return found


def _lds_bytes(size: str) -> int:
    return int(re.findall(r"\d+", size)[0]) // 8


def _describe_lds(base: str, operands: Operands) -> Effect | None:
    values = operands.values
    if "gds" in operands.modifiers or not values:
        return None
    if base in _LDS_LANES:
        # No memory is touched: lanes exchange registers through the LDS crossbar.
        reads = _union(values[1:])
        return _effect(base, operands, None, reads=reads, loaded=parse_registers(values[0]))
    if match := _LDS_READ.fullmatch(base):
        size = _lds_bytes(match["size"])
        return _effect(
            base,
            operands,
            _lds_access(values[1], size, Access.LOAD),
            reads=parse_registers(values[1]),
            loaded=parse_registers(values[0]),
            merges=bool(match["half"]),
        )
    if match := _LDS_WRITE.fullmatch(base):
        size = _lds_bytes(match["size"])
        access = _lds_access(values[0], size, Access.STORE)
        return _effect(base, operands, access, reads=_union(values))
    if match := _LDS_ATOMIC.fullmatch(base):
        returns = bool(match["returns"])
        size = 8 if match["kind"].endswith("64") else 4
        access = _lds_access(values[1 if returns else 0], size, Access.ATOMIC)
        loaded = parse_registers(values[0]) if returns else 0
        # Floating-point additions and comparisons flush denormals as MODE says.
        reads = _union(values[int(returns) :]) | (MODE if "f" in match["kind"] else 0)
        return _effect(base, operands, access, reads=reads, loaded=loaded)
    return None


def _lds_access(address: str, size: int, access: Access) -> MemoryAccess:
    return MemoryAccess(
        space=Space.LDS,
        access=access,
        address_registers=parse_registers(address),
        size=size,
        is_ordered=access is Access.ATOMIC,
    )
