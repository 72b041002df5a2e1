"""Runs plainly, not under `asmevo emulate`: gives its own process the device. Argument: when."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from asmevo.errors import UsageError
from asmevo.replay import emulated_device

PRINT_ARCH = "import torch; print(torch.cuda.get_device_properties().gcnArchName)"


def use_torch_before() -> None:
    """Import torch, and let it decide for good that there is no device."""
    import torch

    try:
        torch.ones(1).pin_memory()
    except RuntimeError:
        return
    raise AssertionError("this torch has a device of its own")


def use_device(results: dict[str, Any]) -> None:
    import torch

    x = torch.ones(3, device="cuda", requires_grad=True)
    (x * 2).sum().backward()  # type: ignore[no-untyped-call]
    results["gradient"] = x.grad.tolist() if x.grad is not None else None
    results["arch"] = torch.cuda.get_device_properties().gcnArchName
    results["pinned"] = torch.ones(1).pin_memory().is_pinned()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        results["stream"] = torch.cuda.current_stream().cuda_stream != 0
    results["child"] = subprocess.check_output(
        [sys.executable, "-c", PRINT_ARCH], text=True
    ).strip()


def main() -> None:
    results: dict[str, Any] = {}
    if sys.argv[1] == "late":
        use_torch_before()
    with emulated_device(chip="mi355x", threads=1) as device:
        results["device"] = str(device)
        use_device(results)
    with emulated_device(chip="mi355x", threads=1):  # again the same: nothing to do
        pass
    try:
        with emulated_device(chip="mi300x", threads=1):
            results["other chip"] = "accepted"
    except UsageError as error:
        results["other chip"] = str(error).partition(":")[0]
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
