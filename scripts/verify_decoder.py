"""Compares the emulated device's decoder with LLVM's, over every instruction of code objects.

    scripts/verify_decoder PATH... [--sample N] [--json]

Paths are code objects, libraries that hold some, or folders. The device's decoder splits each text
section into instructions; every distinct one is then decoded by LLVM, and size and text must be the
same. What LLVM does not decode, the device must not decode either.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import FoundObject, find_code_objects, find_files
from asmevo.codeobject.decoder import decode
from asmevo.codeobject.llvm import Role, find_tool
from asmevo.errors import AsmevoError, CodeObjectError
from asmevo.replay.operation_table import TARGETS, decode_words, split_words

_BATCH = 100_000
_LOAD_SCALE, _SCALED = b"\xac\xd3", (b"\xad\xd3", b"\xae\xd3")
_PADDING = b"\0\0\x80\xbf" * 4  # s_nop 0
_SHOWN = 40


@dataclass(slots=True, kw_only=True)
class Totals:
    """What was compared for one target."""

    objects: int = 0
    instructions: int = 0
    distinct: int = 0
    undecoded: int = 0
    """Distinct words that neither decodes: data and padding between functions."""
    differences: list[str] = field(default_factory=list)


def collect(paths: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Target and text section of every code object."""
    for path in find_files(paths):
        try:
            for found in find_code_objects(path):
                yield from text_of(found)
        except AsmevoError as error:
            print(f"{path}: {error}", file=sys.stderr)


def text_of(found: FoundObject) -> Iterator[tuple[str, bytes]]:
    """Target and text of a code object, if the device knows its target."""
    try:
        code_object = CodeObject.read(found.data)
    except CodeObjectError as error:
        print(f"{found.path} {found.place}: {error}", file=sys.stderr)
        return
    if code_object.target in TARGETS:
        yield code_object.target, code_object.text.data


def split(target: str, text: bytes) -> Iterator[bytes]:
    """The instructions of a text section; a word that does not decode is one word."""
    at = 0
    text = text[: len(text) // 4 * 4]
    start = 0
    for size in split_words(target, text):
        end = at + 4 * (size & 0x7F)
        # LLVM reads a scale and the matrix operation behind it as one instruction.
        if text[at + 2 : at + 4] != _LOAD_SCALE or text[end + 2 : end + 4] not in _SCALED:
            yield text[start:end]
            start = end
        at = end


def plain(text: str) -> str:
    """One blank between words, and what is written in two ways in one of them.

    MTBUF formats are numbers with us and names with LLVM, which marks literals that an inline
    constant could replace.
    """
    text = re.sub(r"lit\((0x[0-9a-f]+)\)", r"\1", re.sub(r" format:\S+", "", text))
    text = re.sub(r"\s+", " ", text).strip()
    # Prints its operands unlike every other buffer access.
    return text.partition(" ")[0] if text.startswith("buffer_store_lds_dword") else text


def ours(target: str, data: bytes) -> tuple[int, str]:
    """Size in bytes and text; no text where nothing decodes."""
    size, text = decode_words(target, data)
    if size < 0:
        return 4, ""
    if data[2:4] == _LOAD_SCALE and data[4 * size + 2 : 4 * size + 4] in _SCALED:
        rest, scaled = decode_words(target, data[4 * size :])
        return 4 * (size + rest), join_scale(text, scaled)
    return 4 * size, plain(text)


def join_scale(scale: str, scaled: str) -> str:
    """`v_mfma_ld_scale_b32` and what it scales, as LLVM writes the two."""
    scales = scale.partition(" op_sel")[0].removeprefix("v_mfma_ld_scale_b32 ")
    lists = dict(re.findall(r"(op_sel|op_sel_hi):\[([01],[01])\]", scale))
    low, high = lists.get("op_sel", "0,0"), lists.get("op_sel_hi", "1,1")
    operands, found, formats = scaled.replace(" abid:1", "").partition(" cbsz:")
    if not found:
        operands, found, formats = operands.partition(" blgp:")
    modifiers = ("" if low == "0,0" else f" op_sel:[{low},0]") + f" op_sel_hi:[{high},0]"
    text = operands.replace("v_mfma_f32", "v_mfma_scale_f32") + ", " + scales
    return text + modifiers + found + formats


def compare(job: tuple[str, list[bytes]]) -> tuple[int, list[str]]:
    """Words that neither decodes, and the differences, of distinct instructions of a target."""
    target, encodings = job
    tool = find_tool(Role.DISASSEMBLER)
    undecoded, differences = 0, []
    listing = {one.offset: one for one in decode(tool, b"".join(encodings), target)}
    at = 0
    for data in encodings:
        one = listing.get(at)
        at += len(data)
        size, text = ours(target, data)
        if one is None or (one.size, plain(one.text)) != (size, text):
            # A neighbour may have confused LLVM: alone, with no-operations behind it.
            one = decode(tool, data + _PADDING, target)[0]
        if not one.text and not text:
            undecoded += 1
        elif (one.size, plain(one.text)) != (size, text):
            shown = data.hex(" ", 4)
            differences.append(f"{target} {shown}: ours `{text}`, LLVM's `{plain(one.text)}`")
    return undecoded, differences


def one_of_each(differences: Iterable[str]) -> list[str]:
    """The first difference of each of our mnemonics."""
    first: dict[str, str] = {}
    for line in differences:
        first.setdefault(line.partition("ours `")[2].partition(" ")[0], line)
    return list(first.values())[:_SHOWN]


def verify(paths: Iterable[Path], *, sample: int = 0) -> dict[str, Totals]:
    """Compare everything under the paths, or every `sample`-th distinct instruction."""
    totals = {target: Totals() for target in TARGETS}
    distinct: dict[str, set[bytes]] = {target: set() for target in TARGETS}
    for target, text in collect(paths):
        totals[target].objects += 1
        found = list(split(target, text))
        totals[target].instructions += len(found)
        distinct[target].update(found)
    jobs = []
    for target, encodings in distinct.items():
        ordered = sorted(encodings)[:: sample or 1]
        totals[target].distinct = len(ordered)
        jobs += [(target, ordered[at : at + _BATCH]) for at in range(0, len(ordered), _BATCH)]
    with ProcessPoolExecutor(max_workers=2) as pool:
        for (target, _), (undecoded, differences) in zip(
            jobs, pool.map(compare, jobs), strict=True
        ):
            totals[target].undecoded += undecoded
            totals[target].differences += differences
    return totals


def main() -> int:
    """Print the summary; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--sample", type=int, default=0, help="compare every Nth distinct one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        totals = verify(arguments.paths, sample=arguments.sample)
    except AsmevoError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if arguments.json:
        print(json.dumps({target: asdict(one) for target, one in totals.items()}, indent=1))
    else:
        for target, one in totals.items():
            print(
                f"{target}: {one.objects} objects, {one.instructions} instructions, "
                f"{one.distinct} distinct, {one.undecoded} of them data, "
                f"{len(one.differences)} different"
            )
            for line in one_of_each(one.differences):
                print(f"  {line}")
    return 1 if any(one.differences for one in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
