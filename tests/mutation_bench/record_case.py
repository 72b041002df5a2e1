"""Runs one case of tests/kernels again and again, so that its dispatches can be captured.

Usage: record_case.py CASE ARCH. Prints `ready`, and from a line on stdin on runs the case until it
is killed: a capture knows a kernel from its first launch on and takes a later one.
"""

from __future__ import annotations

import ctypes
import sys

_PR_SET_PTRACER, _PR_SET_PTRACER_ANY = 0x59616D61, -1


def main() -> None:
    """Serve one case."""
    name, arch = sys.argv[1:3]
    import torch
    from kernel_case import CASES, find_cases
    from kernel_trial import Trial

    list(find_cases())
    torch.zeros(1, device="cuda")  # a capture attaches to a process that has opened the device
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_PR_SET_PTRACER_ANY), 0, 0, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    case = CASES[name]
    while True:
        case.function(Trial(case=case, arch=arch))


if __name__ == "__main__":
    main()
