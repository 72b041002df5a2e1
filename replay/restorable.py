"""What of a dispatch a replay cannot bring back: refused before anything runs, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.capture.bundle import Bundle
from asmevo.capture.manifest import Region, RegionKind
from asmevo.codeobject.analysis.stored_value import StoreFacts
from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.errors import ReplayError
from asmevo.host_memory import available_bytes

__all__ = ["describe_restoration", "find_old_image", "refuse_unrestorable", "require_memory"]

_NOT_REBUILT = {
    "hidden_heap_v1": "the device heap, whose contents are not captured",
    "hidden_multigrid_sync_arg": "the state of a launch over several devices",
    "hidden_default_queue": "a queue to launch kernels from the device",
    "hidden_completion_action": "a queue to launch kernels from the device",
}
"""Hidden arguments that a new launch does not give as they were. Hostcall is made anew."""


def refuse_unrestorable(
    bundle: Bundle, k0: CodeObject, kernel: Kernel, stores: StoreFacts | None
) -> None:
    """Check what the manifest and K0 say.

    Raises:
        ReplayError: The dispatch needs something that a replay cannot bring back.
    """
    for argument in kernel.arguments:
        what = _NOT_REBUILT.get(argument.value_kind)
        if what is not None and _reads(stores, argument.offset):
            raise ReplayError(f"{bundle.path}: {kernel.name} uses {what}: it cannot be replayed")
    for region in _module_globals(bundle):
        where = (
            f"{bundle.path}: region {region.index}, module global {region.symbol or '(unnamed)'}"
        )
        if region.symbol is None or _find_symbol(k0, region.symbol) is None:
            raise ReplayError(f"{where}: it is not in K0's symbol table")
        if region.pointers:
            offset = region.pointers[0].kernarg_offset
            raise ReplayError(
                f"{where}: the argument at +{offset} points to it, and the loader puts it elsewhere"
            )
        if region.memory_pointers:
            first = region.memory_pointers[0]
            raise ReplayError(
                f"{where}: region {first.region} points to it at offset {first.offset}, and the "
                "loader puts it elsewhere"
            )


def _module_globals(bundle: Bundle) -> Iterator[Region]:
    return (region for region in bundle.manifest.regions if region.kind is RegionKind.MODULE_GLOBAL)


def _find_symbol(k0: CodeObject, name: str) -> int | None:
    """Its address in the object."""
    for symbol in (*k0.dynamic_symbols, *k0.symbols):
        if symbol.name == name and symbol.section is not None:
            return symbol.value
    return None


def _reads(stores: StoreFacts | None, offset: int) -> bool:
    """Whether the code reads the eight bytes of its arguments at an offset, or may."""
    if stores is None or stores.reads_kernarg_elsewhere:
        return True
    return not stores.kernarg_dwords.isdisjoint((offset, offset + 4))


def find_old_image(bundle: Bundle, k0: CodeObject) -> range | None:
    """Addresses where K0 was loaded in the program, None where no module global shows it."""
    for region in _module_globals(bundle):
        value = None if region.symbol is None else _find_symbol(k0, region.symbol)
        if value is not None:
            base = region.address - value
            end = max(section.address + section.size for section in k0.sections)
            return range(base, base + end)
    return None


def describe_restoration(bundle: Bundle) -> tuple[str, ...]:
    """What a result must say about memory that is not restored as what it was."""
    notes = []
    managed = [
        str(region.index) for region in bundle.manifest.regions if region.kind is RegionKind.MANAGED
    ]
    if managed:
        which = f"region {managed[0]} is" if len(managed) == 1 else f"{len(managed)} regions are"
        notes.append(
            f"{which} managed memory, which has no call for a fixed address: restored as device "
            "memory"
        )
    if bundle.manifest.capture.is_redacted:
        notes.append("the bundle is redacted: its contents are synthetic")
    return tuple(notes)


def require_memory(bundle: Bundle, *, is_emulated: bool) -> None:
    """Refuse what would drive this machine out of memory: a bundle may claim any size.

    What a launch changes is held once more, to compare with; the emulated device's own memory is
    this machine's as well.

    Raises:
        ReplayError: There is not as much.
    """
    regions = bundle.manifest.regions
    size = sum(region.size_bytes for region in regions)
    changed = sum(region.size_bytes for region in regions if region.after != region.before)
    available, needed = available_bytes(), changed + (size if is_emulated else 0)
    if needed > available:
        raise ReplayError(
            f"{bundle.path} restores {size:,} bytes, for which a replay needs {needed:,}; "
            f"{available:,} are available on this machine"
        )
