"""The emulated device in a Python process that is running already."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asmevo import native
from asmevo.errors import DeviceError, UsageError
from asmevo.replay.device import Device

__all__ = ["emulated_device"]

_VARIABLES = (
    "ASMEVO_EMULATOR_CHIP",
    "ASMEVO_EMULATOR_DISCRETE",
    "ASMEVO_EMULATOR_MFMA",
    "ASMEVO_EMULATOR_THREADS",
)


def _find_loaded_runtime() -> Path | None:
    """The libamdhip64.so that this process has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if "/libamdhip64.so" in f"/{path}":
            return Path(f"/{path}")
    return None


def _check_not_too_late(wanted: dict[str, str]) -> None:
    """Refuse what cannot be changed once a runtime is in the process."""
    loaded = _find_loaded_runtime()
    if loaded is None:
        return
    if not loaded.exists() or not loaded.samefile(native.emulator_library()):
        raise UsageError(
            f"too late: this process has loaded another HIP runtime, {loaded}",
            hint="enter emulated_device() before anything that uses HIP, or use `asmevo emulate`",
        )
    if any(os.environ.get(name) != wanted.get(name) for name in _VARIABLES):
        raise UsageError(
            "too late: this process has an emulated device of another chip or with other settings",
            hint="run each chip in a process of its own",
        )


def _set_up_torch() -> None:
    """Give torch the device: now if it is imported, else when it is."""
    from asmevo.replay.torch_device import imports, install

    imports.watch_imports()
    if "torch" in sys.modules:
        try:
            install.install_late()
        except install.InstallError as error:
            raise DeviceError(f"no emulated device in torch: {error}") from error


@contextmanager
def emulated_device(
    *,
    chip: str | None = None,
    arch: str | None = None,
    discrete: bool = False,
    threads: int = 0,
    fast_mfma: bool = False,
) -> Iterator[Device]:
    """Make the emulated device the HIP device of this process.

    Triton, hip-python and torch's CPU build use it from here on, torch also when it is imported
    already. Processes that are started inside get it too. The device stays in the process
    afterwards, since no runtime can be unloaded: the settings of a process are its first ones.

    Args:
        chip: Product, such as "mi300x"; the usual one of the architecture by default.
        arch: Architecture; gfx942 by default.
        discrete: Keep pageable host memory out of the device's reach.
        threads: Host threads that execute waves; 0 takes all cores.
        fast_mfma: Matrix operations as plain multiply-adds, which is faster and not exact.

    Yields:
        The device.

    Raises:
        UsageError: The settings fit no chip, or another runtime or chip is in the process already.
        DeviceError: This torch cannot have the device.
    """
    device = Device.emulated(
        chip=chip, arch=arch, discrete=discrete, threads=threads, fast_mfma=fast_mfma
    )
    wanted = device.environment(torch=True)
    _check_not_too_late(wanted)
    before = dict(os.environ)
    os.environ.update(wanted)
    for name in before.keys() - wanted.keys():
        del os.environ[name]
    # By soname, whatever searches for the runtime later finds this one.
    ctypes.CDLL(wanted["TRITON_LIBHIP_PATH"], mode=ctypes.RTLD_GLOBAL)
    _set_up_torch()
    try:
        yield device
    finally:
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
