"""Recomputed resources against what objects declare, and edits everywhere with branches followed.

For each kernel, what its code uses is compared with what its descriptor gives. With --edits, an
`s_nop` goes behind every 25th instruction that allows it; the rebuilt code is decoded by itself,
and without the inserted ones it must be the original's, each branch going to the same instruction.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from asmevo.codeobject.branch import branch_distance, is_direct_branch
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import find_code_objects, find_files
from asmevo.codeobject.instruction import Instruction
from asmevo.codeobject.open_listing import open_listing, take_in_place
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import take_apart
from asmevo.codeobject.resource_check import find_resource_faults
from asmevo.codeobject.resource_records import declared_resources, granules
from asmevo.codeobject.resources import measure_need
from asmevo.codeobject.target import HAS_UNIFIED_REGISTERS
from asmevo.codeobject.toolchain import disassemble
from asmevo.errors import AsmevoError

_EVERY = 25
_INSERTED = "s_nop 13"


def main() -> None:
    """Print a line for each fault, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--edits", action="store_true", help="edit and rebuild, too")
    parser.add_argument("--in-place", action="store_true", help="replace in place, too")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    try:
        _verify_all(arguments, counts)
    except KeyboardInterrupt:
        print("interrupted")
    for name, count in sorted(counts.items()):
        print(f"{count:8} {name}")


def _verify_all(arguments: argparse.Namespace, counts: Counter[str]) -> None:
    seen: set[str] = set()
    for path in find_files(arguments.files):
        for found in find_code_objects(path):
            name = f"{path.name} {found.place}".rstrip()
            try:
                source = CodeObject.read(found.data)
            except AsmevoError as error:
                print(f"{name}: {error}")
                continue
            if source.target not in HAS_UNIFIED_REGISTERS or source.sha256 in seen:
                continue
            seen.add(source.sha256)
            _verify(name, source, counts, arguments)


def _verify(
    name: str, source: CodeObject, counts: Counter[str], arguments: argparse.Namespace
) -> None:
    counts["objects"] += 1
    try:
        _count_resources(name, source, counts)
        if arguments.edits:
            _edit_everywhere(name, source, counts)
        if arguments.in_place:
            _replace_in_place(name, source, counts)
    except AsmevoError as error:
        counts["objects that failed"] += 1
        print(f"{name}: {error}")


def _count_resources(name: str, source: CodeObject, counts: Counter[str]) -> None:
    listing = take_apart(source)
    for fault in find_resource_faults(listing):
        counts["kernels given less than their code uses"] += 1
        print(f"{name}: {fault}")
    for kernel in source.kernels:
        need, given = measure_need(listing, kernel.name), declared_resources(kernel)
        counts["kernels"] += 1
        counts["kernels with an open end"] += bool(need.registers.open_ends)
        vgprs = granules(need.registers.total_vgprs, 8) == given.allocated_vgprs
        counts["VGPR granules equal"] += vgprs
        counts["accum_offset equal"] += need.accum_offset == given.accum_offset
        counts["SGPR granules equal"] += granules(need.sgprs, 16) == given.allocated_sgprs
        metadata = kernel.metadata
        counts["metadata VGPR count equal"] += metadata.vgpr_count == need.registers.total_vgprs
        counts["metadata AGPR count equal"] += metadata.agpr_count == need.registers.agprs
        counts["metadata SGPR count equal"] += metadata.sgpr_count == need.sgprs


def _edit_everywhere(name: str, source: CodeObject, counts: Counter[str]) -> None:
    start = time.perf_counter()
    listing = open_listing(source.data)
    if listing.is_in_place:
        counts["objects edited in place only"] += 1
        return
    edited = listing
    places = [one.id for one in listing.instructions if one.id not in listing.glued]
    for identifier in places[::_EVERY]:
        edited = edited.insert_after(identifier, [_INSERTED])
        counts["instructions inserted"] += 1
    data = rebuild_listing(edited)
    counts["objects edited"] += 1
    counts["milliseconds of editing"] += round(1000 * (time.perf_counter() - start))
    rebuilt = CodeObject.read(data)
    after = disassemble(rebuilt.text.data, rebuilt.target)
    if _shape(after) != _shape(disassemble(source.text.data, source.target)):
        counts["objects with other code than meant"] += 1
        print(f"{name}: the edited code is not the original's with s_nop between")


def _shape(decoded: tuple[Instruction, ...]) -> list[object]:
    """Texts without padding, of branches with the number of the instruction that they reach."""
    numbers: dict[int, int] = {}
    count = 0
    for one in decoded:
        numbers[one.id] = count
        count += one.mnemonic != "s_nop"
    shape: list[object] = []
    for one in decoded:
        if is_direct_branch(one.mnemonic):
            goal = count if one.target is None else numbers[one.target]
            shape.append((one.mnemonic, goal))
        elif one.mnemonic in ("s_add_u32", "s_addc_u32") and len(one.data) == 8:
            # A literal may be a distance to data, which grew with the code.
            shape.append((one.mnemonic, one.operands.rpartition(",")[0]))
        elif one.mnemonic != "s_nop":
            shape.append(one.text)
    return shape


def _replace_in_place(name: str, source: CodeObject, counts: Counter[str]) -> None:
    """Delete every 25th `s_waitcnt`, `s_nop` or VALU instruction of 4 bytes."""
    listing = take_in_place(source.data)
    free = [
        one
        for one in listing.instructions
        if one.id not in listing.pinned and one.mnemonic.startswith(("s_waitcnt", "s_nop", "v_mov"))
    ]
    chosen = {one.id for one in free[::_EVERY]}
    if not chosen:
        return
    data = rebuild_listing(listing.delete(chosen))
    counts["objects patched in place"] += 1
    counts["instructions deleted in place"] += len(chosen)
    before = disassemble(source.text.data, source.target)
    code = CodeObject.read(data).text.data
    after = {one.offset: one for one in disassemble(code, source.target)}
    for one in before:
        if one.id not in chosen and not _is_kept(one, after.get(one.offset), code):
            counts["objects patched otherwise than meant"] += 1
            print(f"{name}: `{one.text}` at .text+{one.offset:#x} is not as it was")
            return


def _is_kept(one: Instruction, found: Instruction | None, code: bytes) -> bool:
    """The same bytes; a branch to a deleted instruction may go over the `s_nop` in its place."""
    if found is None or not is_direct_branch(one.mnemonic):
        return found is not None and found.data == one.data
    start = one.offset + 4 + branch_distance(one.data)
    end = one.offset + 4 + branch_distance(found.data)
    is_same = found.data[2:] == one.data[2:] and start <= end
    return is_same and code[start:end] == bytes.fromhex("000080bf") * ((end - start) // 4)


if __name__ == "__main__":
    main()
