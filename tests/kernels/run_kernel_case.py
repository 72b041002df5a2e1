"""Runs one case and writes what came of it; a child of verify_kernels.py on the emulated device."""

from __future__ import annotations

import argparse
import json
import traceback
from pathlib import Path

from kernel_case import CASES, find_cases
from kernel_trial import Trial

__all__ = ["main"]


def main() -> None:
    """Run the case that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    list(find_cases())
    case = CASES[arguments.case]
    trial = Trial(case=case, arch=arguments.arch)
    error = ""
    try:
        case.function(trial)
    except Exception as exception:
        traceback.print_exc()
        error = f"{type(exception).__name__}: {exception}"
    result = {"error": error, "comparisons": [c.to_json() for c in trial.comparisons]}
    arguments.output.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
