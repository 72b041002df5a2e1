"""Which type the elements of each region have: told by the user, or by K0's code object.

In the order of trust: --dtype; the Triton signature; types in the metadata or in the mangled name
of the kernel; the data flow to the kernel's stores. A type that the stores contradict is not used:
the region is then bits of unknown meaning, compared byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from asmevo.capture.bundle import Bundle
from asmevo.capture.manifest import Region
from asmevo.codeobject.analysis.control_flow import read_program
from asmevo.codeobject.analysis.stored_value import (
    Store,
    StoredType,
    StoreFacts,
    analyse_stores,
)
from asmevo.codeobject.code_object import CodeObject, Kernel, KernelArgument
from asmevo.codeobject.recover import recover
from asmevo.errors import AsmevoError, UsageError
from asmevo.replay.comparison import RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.mangled_types import read_pointer_types

__all__ = ["TypeHints", "describe_regions", "find_store_facts"]

_SIGNATURE_TYPES = {
    "fp64": ElementType.F64,
    "fp32": ElementType.F32,
    "fp16": ElementType.F16,
    "bf16": ElementType.BF16,
    "i1": ElementType.U8,
    "i8": ElementType.I8,
    "u8": ElementType.U8,
    "i16": ElementType.I16,
    "u16": ElementType.U16,
    "i32": ElementType.I32,
    "u32": ElementType.U32,
    "i64": ElementType.I64,
    "u64": ElementType.U64,
}
_TYPE_NAMES = {
    "double": ElementType.F64,
    "float": ElementType.F32,
    "half": ElementType.F16,
    "_Float16": ElementType.F16,
    "__half": ElementType.F16,
    "__bf16": ElementType.BF16,
    "__hip_bfloat16": ElementType.BF16,
    "char": ElementType.I8,
    "uchar": ElementType.U8,
    "short": ElementType.I16,
    "ushort": ElementType.U16,
    "int": ElementType.I32,
    "uint": ElementType.U32,
    "long": ElementType.I64,
    "ulong": ElementType.U64,
}
_SCRATCH_POINTERS = 2
"""Triton appends them to what the signature names."""
_FLOAT_STORES = {
    StoredType.F64: ElementType.F64,
    StoredType.F32: ElementType.F32,
    StoredType.F16: ElementType.F16,
    StoredType.BF16: ElementType.BF16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeHints:
    """What the user says.

    Attributes:
        everywhere: Of all regions.
        by_argument: By the name of a kernel argument, its kernarg offset (`+16`) or the index of a
            region.
        signature: Triton's, such as `*fp32,*bf16,i32`.
    """

    everywhere: ElementType | None = None
    by_argument: Mapping[str, ElementType] | None = None
    signature: str = ""

    @classmethod
    def parse(cls, texts: Sequence[str], signature: str = "") -> TypeHints:
        """Read `TYPE` and `ARGUMENT=TYPE`.

        Raises:
            UsageError: A type is not known.
        """
        everywhere, by_argument = None, {}
        for text in texts:
            where, _, name = text.rpartition("=")
            try:
                element_type = ElementType(name)
            except ValueError:
                known = ", ".join(ElementType)
                raise UsageError(f"unknown type {name[:40]!r}", hint=f"known: {known}") from None
            if where:
                by_argument[where] = element_type
            else:
                everywhere = element_type
        return cls(everywhere=everywhere, by_argument=by_argument, signature=signature)


def find_store_facts(k0: CodeObject, kernel: Kernel) -> StoreFacts | None:
    """The kernel's stores, None where its code is not understood."""
    try:
        listing = recover(k0.data)
        span = next(one for one in listing.kernels if one.name == kernel.name)
        entries = sorted({span.first_id, span.body_id})
        program = read_program(listing.kernel_instructions(kernel.name), entries)
        return analyse_stores(program, kernel)
    except AsmevoError:
        return None


def describe_regions(
    bundle: Bundle,
    k0: CodeObject,
    kernel: Kernel,
    stores: StoreFacts | None,
    hints: TypeHints,
) -> tuple[RegionFacts, ...]:
    """What a report says about each region, and what its elements are.

    Raises:
        UsageError: A hint names no argument or region, or the signature does not fit the kernel.
    """
    arguments = {argument.offset: argument for argument in kernel.arguments}
    declared = _declared_types(k0, kernel, hints.signature)
    regions = bundle.manifest.regions
    _refuse_unknown(hints, kernel, regions)
    facts = []
    for region in regions:
        offsets = tuple(pointer.kernarg_offset for pointer in region.pointers)
        element_type, source = _find_type(region, arguments, declared, stores, hints)
        facts.append(
            RegionFacts(
                index=region.index,
                address=region.address,
                argument=", ".join(
                    f"{_name(arguments.get(offset), kernel)} (kernarg +{offset})"
                    for offset in offsets
                ),
                element_type=element_type,
                type_source=source,
                has_float_atomics=_has_float_atomics(stores, offsets),
            )
        )
    return tuple(facts)


def _name(argument: KernelArgument | None, kernel: Kernel) -> str:
    if argument is None:
        return "unnamed"
    return argument.name or f"#{kernel.arguments.index(argument)}"


def _refuse_unknown(hints: TypeHints, kernel: Kernel, regions: Sequence[Region]) -> None:
    known = {argument.name for argument in kernel.arguments}
    known |= {f"+{argument.offset}" for argument in kernel.arguments}
    known |= {str(region.index) for region in regions}
    for where in hints.by_argument or {}:
        if where not in known:
            raise UsageError(f"--dtype: no argument or region {where[:40]!r}")


def _find_type(
    region: Region,
    arguments: Mapping[int, KernelArgument],
    declared: Mapping[int, tuple[ElementType, str]],
    stores: StoreFacts | None,
    hints: TypeHints,
) -> tuple[ElementType, str]:
    offsets = [pointer.kernarg_offset for pointer in region.pointers]
    if (told := _find_hint(region, arguments, hints)) is not None:
        return told, "--dtype"
    named = {declared[offset] for offset in offsets if offset in declared}
    stored = _find_stored_type(stores, offsets)
    if len({element_type for element_type, _ in named}) == 1:
        element_type, source = next(iter(named))
        if stored is None or stored is element_type:
            return _on_grid(region, element_type, source)
        return ElementType.B32, ""
    if stored is not None and not named:
        return _on_grid(region, stored, "stores")
    return ElementType.B32, ""


def _on_grid(region: Region, element_type: ElementType, source: str) -> tuple[ElementType, str]:
    """Elements are counted from the region's start: a pointer between two has another grid."""
    size = element_type.size_bytes
    if region.address % size or any(one.region_offset % size for one in region.pointers):
        return ElementType.B32, ""
    return element_type, source


def _find_hint(
    region: Region, arguments: Mapping[int, KernelArgument], hints: TypeHints
) -> ElementType | None:
    by_argument = hints.by_argument or {}
    if str(region.index) in by_argument:
        return by_argument[str(region.index)]
    for pointer in region.pointers:
        argument = arguments.get(pointer.kernarg_offset)
        names = [f"+{pointer.kernarg_offset}"]
        names += [argument.name] if argument is not None and argument.name else []
        for name in names:
            if name in by_argument:
                return by_argument[name]
    return hints.everywhere


def _reaching(stores: StoreFacts, offsets: Sequence[int]) -> Iterator[Store]:
    """Stores that may go through one of the arguments: those whose address is not known, too."""
    wanted = {dword for offset in offsets for dword in (offset, offset + 4)}
    for store in stores.stores:
        if not store.arguments or store.arguments & wanted:
            yield store


def _find_stored_type(stores: StoreFacts | None, offsets: Sequence[int]) -> ElementType | None:
    """A float type that everything which may be stored there has."""
    if stores is None or not offsets:
        return None
    types = {store.type for store in _reaching(stores, offsets)}
    return _FLOAT_STORES.get(next(iter(types))) if len(types) == 1 else None


def _has_float_atomics(stores: StoreFacts | None, offsets: Sequence[int]) -> bool:
    if stores is None:
        return False
    through = _reaching(stores, offsets) if offsets else iter(stores.stores)
    return any(store.is_float_atomic for store in through)


def _declared_types(
    k0: CodeObject, kernel: Kernel, signature: str
) -> dict[int, tuple[ElementType, str]]:
    """By kernarg offset, with the source."""
    explicit = [argument for argument in kernel.arguments if not argument.is_hidden]
    found: dict[int, tuple[ElementType, str]] = {}
    mangled = read_pointer_types(kernel.name)
    if mangled is not None and len(mangled) == len(explicit):
        for argument, element_type in zip(explicit, mangled, strict=True):
            if element_type is not None:
                found[argument.offset] = element_type, "mangled name"
    for offset, element_type in _metadata_types(k0, kernel):
        found[offset] = element_type, "metadata"
    for offset, element_type in _signature_types(explicit, signature):
        found[offset] = element_type, "signature"
    return found


def _metadata_types(k0: CodeObject, kernel: Kernel) -> Iterator[tuple[int, ElementType]]:
    """`.type_name` of OpenCL's and older HIP's metadata: `float*`, `const half *`."""
    for entry in k0.metadata.get("amdhsa.kernels", ()):
        if entry.get(".symbol") != kernel.symbol:
            continue
        for argument in entry.get(".args", ()):
            name, offset = argument.get(".type_name"), argument.get(".offset")
            if not isinstance(name, str) or not isinstance(offset, int):
                continue
            match = re.fullmatch(r"(?:const |volatile )*(\w+) ?\*(?: ?restrict)?", name[:200])
            if match and (element_type := _TYPE_NAMES.get(match[1])) is not None:
                yield offset, element_type


def _signature_types(
    explicit: Sequence[KernelArgument], signature: str
) -> Iterator[tuple[int, ElementType]]:
    if not signature:
        return
    entries = [entry.strip() for entry in signature.split(",")]
    entries = [entry for entry in entries if entry != "constexpr"]
    added = explicit[len(entries) :]
    fits = len(entries) <= len(explicit) and len(added) <= _SCRATCH_POINTERS
    if not fits or not all(argument.is_pointer for argument in added):
        raise UsageError(
            f"the signature has {len(entries)} arguments, the kernel takes {len(explicit)}",
            hint="constexpr entries may stay in it",
        )
    for argument, entry in zip(explicit, entries, strict=False):
        if argument.is_pointer and not entry.startswith("*"):
            raise UsageError(
                f"the signature's {entry[:20]!r} is no pointer, argument +{argument.offset} is one"
            )
        element_type = _SIGNATURE_TYPES.get(entry.removeprefix("*").removeprefix("k"))
        if entry.startswith("*") and element_type is not None:
            yield argument.offset, element_type
