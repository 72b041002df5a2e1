"""Writes docs/instructions.md and docs/instructions.tsv from the emulated device's own tables.

    scripts/instruction_table [--check]

With --check nothing is written; the exit code is 1 when a file is not what would be written.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from asmevo.errors import AsmevoError
from asmevo.replay.operation_table import TARGETS, Exactness, Operation, read_operations

_DOCS = Path(__file__).resolve().parents[1] / "docs"

_WIDTH = 100

_FAMILIES = {
    "scalar ALU": ("sop1", "sop2", "sopc", "sopk", "sopp"),
    "scalar memory": ("smem",),
    "vector ALU": ("vop1", "vop2", "vop3"),
    "vector comparisons": ("vopc",),
    "packed, dot and matrix": ("vop3p",),
    "LDS": ("ds",),
    "buffer": ("mubuf", "mtbuf"),
    "flat, global, scratch": ("flat", "global", "scratch"),
    "image": ("mimg",),
}

_INTRODUCTION = """\
# Instructions of the emulated device

Made by `scripts/instruction_table` from the tables that the device itself decodes and executes by;
do not edit. Every operation with what holds on each target is in
[instructions.tsv](instructions.tsv).

*Exact*: the result has the bits that the ISA document or published measurements give.
*Approximate*: executed, but no published source fixes every bit. *Missing*: decoded and refused by
name, with the reason. What LLVM knows for a target is one of the three: a test goes through every
opcode number of every encoding. `emulated-semantics.md` says what holds for whole families, and
which modifiers are refused on single operations.
"""


def level(operations: Sequence[Operation], target: str) -> Exactness | None:
    """How one name does on a target; None where the target does not have it."""
    found = [one.exactness_on(target) for one in operations if target in one.targets]
    return max(found, key=list(Exactness).index) if found else None


def by_name(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """Rows of one name together, names in alphabetical order."""
    names: dict[str, list[Operation]] = {}
    for one in operations:
        names.setdefault(one.name, []).append(one)
    return dict(sorted(names.items()))


def family_of(encoding: str) -> str:
    """The line of the summary that an encoding belongs to."""
    return next(name for name, encodings in _FAMILIES.items() if encoding in encodings)


def format_tsv(names: dict[str, list[Operation]]) -> str:
    """One line an operation."""
    lines = ["\t".join(("operation", "encoding", *TARGETS, "note"))]
    for name, rows in names.items():
        levels = [level(rows, target) for target in TARGETS]
        encodings = "/".join(dict.fromkeys(row.encoding for row in rows))
        notes = "; ".join(dict.fromkeys(row.note for row in rows if row.note))
        lines.append("\t".join((name, encodings, *(one or "-" for one in levels), notes)))
    return "\n".join(lines) + "\n"


def summary(names: dict[str, list[Operation]]) -> list[str]:
    """Counts by family and target: exact, approximate, missing."""
    counts: Counter[tuple[str, str, Exactness]] = Counter()
    for rows in names.values():
        for target in TARGETS:
            if (one := level(rows, target)) is not None:
                counts[family_of(rows[0].encoding), target, one] += 1
    lines = ["| operations | " + " | ".join(TARGETS) + " |", "|---|" + "---|" * len(TARGETS)]
    for family in _FAMILIES:
        cells = [cell(counts, [family], target) for target in TARGETS]
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    cells = [cell(counts, _FAMILIES, target) for target in TARGETS]
    lines.append("| **all** | " + " | ".join(cells) + " |")
    return lines


def cell(counts: Counter[tuple[str, str, Exactness]], families: Iterable[str], target: str) -> str:
    """`exact + approximate, missing` of some families on a target."""
    exact, approximate, missing = (
        sum(counts[family, target, one] for family in families) for one in Exactness
    )
    text = f"{exact}" + (f" + {approximate} approximate" if approximate else "")
    return text + (f", {missing} missing" if missing else "")


def notes_of(names: dict[str, list[Operation]], wanted: Exactness) -> list[str]:
    """The operations of one exactness, under the note that they share."""
    groups: dict[str, list[str]] = {}
    for name, rows in names.items():
        for row in rows:
            if row.exactness is wanted:
                where = [target for target in row.targets if target in row.inexact_targets]
                on = "" if len(where) == len(row.targets) else f" ({', '.join(where)})"
                members = groups.setdefault(row.note, [])
                if (entry := f"`{name}`{on}") not in members:
                    members.append(entry)
    return [line for note, members in groups.items() for line in (f"* {note}:", *wrap(members))]


def wrap(members: Iterable[str]) -> list[str]:
    """A list of names in lines of the width of the docs."""
    return textwrap.wrap(
        ", ".join(members), width=_WIDTH, initial_indent="  ", subsequent_indent="  "
    )


def format_page(names: dict[str, list[Operation]]) -> str:
    """The page: counts, then what is approximate and what is missing."""
    parts = [_INTRODUCTION, *summary(names), "", "## Approximate", ""]
    parts += [*notes_of(names, Exactness.APPROXIMATE), "", "## Missing", ""]
    parts += notes_of(names, Exactness.MISSING)
    return "\n".join(parts) + "\n"


def render() -> dict[Path, str]:
    """What the files should hold."""
    names = by_name(read_operations())
    return {
        _DOCS / "instructions.md": format_page(names),
        _DOCS / "instructions.tsv": format_tsv(names),
    }


def main() -> int:
    """Write or check both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    try:
        files = render()
    except AsmevoError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if not check:
            path.write_text(files[path])
        print(f"{path}: {'is not what the tables say' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
