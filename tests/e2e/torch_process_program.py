"""Runs under `asmevo emulate`: the device in processes that a program starts."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from typing import Any

import torch

PRINT_ARCH = """
import torch
print(torch.cuda.is_available(), torch.cuda.get_device_properties().gcnArchName)
"""


def add_on_device(value: float) -> float:
    return float((torch.full((4,), value, device="cuda") + 1).sum().item() / 4)


def run_in_pool(method: str, values: list[float]) -> list[float]:
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(add_on_device, values)


def run_subprocess() -> str:
    environment = {**os.environ, "ASMEVO_EMULATOR_CHIP": "mi355x", "ASMEVO_EMULATOR_ARCH": "gfx950"}
    command = [sys.executable, "-c", PRINT_ARCH]
    return subprocess.check_output(command, env=environment, text=True).strip()


def main() -> None:
    results: dict[str, Any] = {
        "forked before the device was used": run_in_pool("fork", [6.0])[0],
        "spawned": run_in_pool("spawn", [2.0, 4.0]),
        "subprocess": run_subprocess(),
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
