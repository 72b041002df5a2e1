"""Run a Triton script whose work is its benchmarks, at their first size and measuring once.

    asmevo emulate -- python scripts/small_benchmarks.py SCRIPT [NAME=INTEGER…]

The script is read and run as it is, as `__main__`. Of Triton, `triton.testing.perf_report` is
replaced by one that calls each benchmark with the first of its `x_vals`, with NAME=INTEGER in place
of what the script passes, and prints what it returns; and `triton.testing.do_bench` by one call.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton.testing


class SmallReport:
    """What `triton.testing.perf_report` gives, for the smallest of each benchmark."""

    def __init__(
        self, function: Callable[..., Any], benchmarks: Any, sizes: dict[str, int]
    ) -> None:
        """Benchmarks as `perf_report` takes them; sizes replace arguments of these names."""
        self._function = function
        self._benchmarks = benchmarks if isinstance(benchmarks, Sequence) else [benchmarks]
        self._sizes = sizes

    def run(self, **_: Any) -> None:
        """Call the benchmark once for each of its lines."""
        for benchmark in self._benchmarks:
            x = benchmark.x_vals[0]
            values = x if isinstance(x, Sequence) else [x] * len(benchmark.x_names)
            arguments = dict(zip(benchmark.x_names, values, strict=True)) | benchmark.args
            arguments |= {name: size for name, size in self._sizes.items() if name in arguments}
            for line in benchmark.line_vals:
                result = self._function(**arguments, **{benchmark.line_arg: line})
                print(f"{benchmark.plot_name} {line} {arguments}: {result}", flush=True)


def call_once(function: Callable[[], Any], **_: Any) -> float:
    """Instead of `do_bench`: the milliseconds of one call, on this host."""
    start = time.perf_counter()
    function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Patch, and run the script."""
    _, script, *pairs = sys.argv
    sizes = {name: int(text) for name, _, text in (pair.partition("=") for pair in pairs)}

    def report(benchmarks: Any) -> Callable[[Callable[..., Any]], SmallReport]:
        return lambda function: SmallReport(function, benchmarks, sizes)

    vars(triton.testing).update(perf_report=report, do_bench=call_once)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
