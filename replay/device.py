"""Which device runs dispatches, and what a child process needs to reach it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from asmevo import native
from asmevo.errors import UsageError

__all__ = ["CHIPS", "DEFAULT_CHIP", "Chip", "Device", "DeviceKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A product of AMD: HIP sees one such device (an MI250X is two of them)."""

    id: str
    name: str
    arch: str
    compute_units: int


# The same chips as in replay/emulator/hip/chip.cpp, which holds what only the device needs.
CHIPS = {
    chip.id: chip
    for chip in (
        Chip(id="mi210", name="AMD Instinct MI210", arch="gfx90a", compute_units=104),
        Chip(id="mi250x", name="AMD Instinct MI250X", arch="gfx90a", compute_units=110),
        Chip(id="mi300x", name="AMD Instinct MI300X", arch="gfx942", compute_units=304),
        Chip(id="mi300a", name="AMD Instinct MI300A", arch="gfx942", compute_units=228),
        Chip(id="mi308x", name="AMD Instinct MI308X", arch="gfx942", compute_units=80),
        Chip(id="mi325x", name="AMD Instinct MI325X", arch="gfx942", compute_units=304),
        Chip(id="mi355x", name="AMD Instinct MI355X", arch="gfx950", compute_units=256),
    )
}
DEFAULT_CHIP = {"gfx90a": "mi210", "gfx942": "mi300x", "gfx950": "mi355x"}

_LIBRARY_NAME = "libamdhip64.so"
# Where hip-python looks before LD_LIBRARY_PATH (rocm.bindings.util.paths), and Triton's HIP_PATH.
_ROCM_VARIABLES = ("ROCM_PATH", "ROCM_HOME", "HIP_PATH")
_ROCM_DEFAULT = "/opt/rocm"
# Its sitecustomize sets the device up in each torch that a child imports.
_TORCH_SITE = Path(__file__).resolve().parent / "torch_device" / "site"


class DeviceKind(StrEnum):
    """How a device runs code objects."""

    EMULATED = "emulated"
    HIP = "hip"


def _find_chip(chip_id: str) -> Chip:
    chip = CHIPS.get(chip_id.lower())
    if chip is None:
        raise UsageError(f"unknown chip {chip_id!r}", hint=f"known chips: {', '.join(CHIPS)}")
    return chip


def _find_default_chip(arch: str) -> Chip:
    chip_id = DEFAULT_CHIP.get(arch)
    if chip_id is None:
        raise UsageError(
            f"unknown architecture {arch!r}",
            hint=f"the emulated device is one of: {', '.join(DEFAULT_CHIP)}",
        )
    return CHIPS[chip_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device to run dispatches on.

    Attributes:
        kind: Emulated, or a GPU through ROCm's runtime.
        ordinal: Which GPU; 0 for the emulated device.
        chip: What is emulated; None for a GPU.
        discrete: Emulated only: the device reaches no pageable host memory.
        threads: Emulated only: host threads that execute waves; 0 takes all cores.
        fast_mfma: Emulated only: matrix operations as plain multiply-adds, which is faster and not
            what hardware computes. Nothing that judges a candidate sets it.
    """

    kind: DeviceKind
    ordinal: int = 0
    chip: Chip | None = None
    discrete: bool = False
    threads: int = 0
    fast_mfma: bool = False

    @classmethod
    def parse(cls, text: str, *, arch: str | None = None) -> Self:
        """Read `emulated[:CHIP]` or `hip[:N]`.

        CHIP may also be an architecture, which stands for its usual chip. Without CHIP it is the
        usual one of `arch`, which may be a target id.
        """
        kind, _, rest = text.partition(":")
        if kind == DeviceKind.EMULATED:
            usual = arch.partition(":")[0] if arch and not rest else None
            return cls.emulated(chip=rest or None, arch=usual)
        if kind == DeviceKind.HIP:
            if rest and not (rest.isascii() and rest.isdigit() and len(rest) <= 4):
                raise UsageError(
                    f"device number {rest!r} is not a number", hint="for example: hip:0"
                )
            return cls(kind=DeviceKind.HIP, ordinal=int(rest or 0))
        raise UsageError(
            f"unknown device {text!r}", hint="a device is emulated, emulated:mi300x, hip or hip:0"
        )

    @classmethod
    def emulated(
        cls,
        *,
        chip: str | None = None,
        arch: str | None = None,
        discrete: bool = False,
        threads: int = 0,
        fast_mfma: bool = False,
    ) -> Self:
        """The emulated device as `chip`, as the usual chip of `arch`, or as an MI300X."""
        if chip is None:
            found = _find_default_chip(arch or "gfx942")
        else:
            found = _find_default_chip(chip) if chip in DEFAULT_CHIP else _find_chip(chip)
        if arch is not None and found.arch != arch:
            raise UsageError(f"{found.name} is a {found.arch}, not a {arch}")
        return cls(
            kind=DeviceKind.EMULATED,
            chip=found,
            discrete=discrete,
            threads=threads,
            fast_mfma=fast_mfma,
        )

    def __str__(self) -> str:
        """The form that `parse` reads."""
        detail = self.chip.id if self.chip else str(self.ordinal)
        return f"{self.kind.value}:{detail}"

    def environment(
        self, base: Mapping[str, str] | None = None, *, torch: bool = False
    ) -> dict[str, str]:
        """The environment of a child process that is to use this device.

        Args:
            base: What to start from; the environment of this process by default.
            torch: Emulated only: a Python in the child that imports torch gets CUDA tensors on it.

        Returns:
            A copy of `base`. For the emulated device its library comes first wherever Triton,
            hip-python and the dynamic linker look. For a GPU only the visible devices are narrowed,
            so that the child's device 0 is this one.
        """
        result = dict(os.environ if base is None else base)
        if self.chip is None:
            result["HIP_VISIBLE_DEVICES"] = str(self.ordinal)
            return result
        folder = native.emulator_folder()
        libraries = _find_rocm_libraries(result)
        if _find_other_runtime(result):
            # hip-python then looks into ROCM_PATH/lib; all must open the same file.
            result["ROCM_PATH"] = str(folder)
            folder /= "lib"
        _prepend_path(result, "LD_LIBRARY_PATH", str(folder))
        # ROCm's other libraries where they are; behind them, what stands in for them.
        for last in (*libraries, native.emulator_folder() / "stubs"):
            _append_path(result, "LD_LIBRARY_PATH", str(last))
        result["TRITON_LIBHIP_PATH"] = str(folder / _LIBRARY_NAME)
        result["ASMEVO_EMULATOR_ARCH"] = self.chip.arch
        result["ASMEVO_EMULATOR_CHIP"] = self.chip.id
        _set_or_clear(result, "ASMEVO_EMULATOR_DISCRETE", "1" if self.discrete else "")
        _set_or_clear(result, "ASMEVO_EMULATOR_MFMA", "fast" if self.fast_mfma else "")
        _set_or_clear(result, "ASMEVO_EMULATOR_THREADS", str(self.threads) if self.threads else "")
        if torch:
            _prepend_path(result, "PYTHONPATH", str(_TORCH_SITE))
        return result


def _find_rocm_libraries(environment: Mapping[str, str]) -> list[Path]:
    roots = [environment.get(name, "") for name in _ROCM_VARIABLES]
    folders = (Path(root, "lib") for root in (*filter(None, roots), _ROCM_DEFAULT))
    return [folder for folder in folders if (folder / "librocblas.so").exists()]


def _find_other_runtime(environment: dict[str, str]) -> bool:
    """Take ROCm's variables out; whether hip-python would find a runtime of ROCm."""
    roots = [environment.pop(name, "") for name in _ROCM_VARIABLES]
    places = (Path(root, "lib", _LIBRARY_NAME) for root in (*filter(None, roots), _ROCM_DEFAULT))
    return any(place.exists() for place in places)


def _prepend_path(environment: dict[str, str], name: str, folder: str) -> None:
    paths = [folder, *filter(None, environment.get(name, "").split(":"))]
    environment[name] = ":".join(dict.fromkeys(paths))


def _append_path(environment: dict[str, str], name: str, folder: str) -> None:
    paths = [*filter(None, environment.get(name, "").split(":")), folder]
    environment[name] = ":".join(dict.fromkeys(paths))


def _set_or_clear(environment: dict[str, str], name: str, value: str) -> None:
    if value:
        environment[name] = value
    else:
        environment.pop(name, None)
