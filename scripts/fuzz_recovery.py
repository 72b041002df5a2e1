"""Seeded fuzzing of recovery: ELF, metadata, bundles, names.

Every case is a damaged file. It must be refused with one line, or be read, taken apart and written
as text that holds nothing but what recovery writes. Every `--whole`th case that gets so far also
goes through assembler and linker. A traceback, a foreign directive, more than four gigabytes or ten
seconds of CPU time end the run; the seed and the number of the case repeat it.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from collections import Counter
from pathlib import Path

from damaged_objects import check_survival, damage
from test_containers import GFX942, HOST, compress_bundle, make_bundle, make_host_library

from asmevo.codeobject.toolchain import assemble, link

__all__ = ["main"]

_FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures"
_MEMORY_BYTES = 4 << 30
_CASE_SECONDS = 10.0


def make_bases() -> list[bytes]:
    """Small objects, and all that may ship them."""
    objects = [
        link(assemble((_FIXTURES / f"{name}.s").read_text(), "gfx942"))
        for name in ("scale", "two_kernels", "preload")
    ]
    bundle = make_bundle([(HOST, b""), *((GFX942, one) for one in objects)])
    packed = [
        compress_bundle(bundle, version, method)
        for version in (1, 2, 3)
        for method in ("zlib", "zstd")
    ]
    return [*objects, *objects, bundle, *packed, make_host_library(bundle + bytes(64) + packed[3])]


def main() -> None:
    """Run the cases and print how far they got."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=20_000, help="how many (20000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first case (1)")
    parser.add_argument("--whole", type=int, default=100, help="one in N goes through LLVM (100)")
    parser.add_argument("files", type=Path, nargs="*", help="to damage beside the small ones")
    arguments = parser.parse_args()
    bases = [*make_bases(), *(path.read_bytes() for path in arguments.files)]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    reached: Counter[str] = Counter()
    slowest = 0.0
    start = time.monotonic()
    for number in range(arguments.cases):
        chance = random.Random(f"{arguments.seed}/{number}")
        data = damage(chance.choice(bases), chance)
        before = time.process_time()
        try:
            reached[check_survival(data, whole=number % arguments.whole == 0)] += 1
        except BaseException as error:
            raise SystemExit(f"case {number} of seed {arguments.seed}: {error!r}") from error
        taken = time.process_time() - before
        slowest = max(slowest, taken)
        if taken > _CASE_SECONDS:
            raise SystemExit(f"case {number} of seed {arguments.seed} took {taken:.1f} s")
    counts = ", ".join(f"{count} {name}" for name, count in reached.most_common())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{arguments.cases} cases: {counts}")
    print(f"slowest {slowest:.2f} s of CPU, peak {peak} MiB, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
