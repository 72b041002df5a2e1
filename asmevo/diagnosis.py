"""What this machine has of what asmevo needs: the checks behind `asmevo doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from asmevo import native
from asmevo.codeobject import toolchain
from asmevo.errors import AsmevoError

__all__ = [
    "Check",
    "Importance",
    "find_attach_obstacles",
    "find_missing_cpu_features",
    "run_checks",
]

# What -march=x86-64-v3 adds (replay/emulator/CMakeLists.txt), as /proc/cpuinfo spells it.
_CPU_FEATURES = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")

_CAP_SYS_PTRACE = 19  # linux/capability.h
_YAMA_RESTRICTED = 1  # Documentation/admin-guide/LSM/Yama.rst
_YAMA_NO_ATTACH = 3


class Importance(StrEnum):
    """What a missing thing costs."""

    REQUIRED = "required"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked for: what was found, or what its absence costs and how to get it."""

    name: str
    found: str = ""
    problem: str = ""
    fix: str = ""
    importance: Importance = Importance.REQUIRED

    @property
    def is_fine(self) -> bool:
        """True when nothing has to be done."""
        return not self.problem

    def to_json(self) -> dict[str, str]:
        """Plain fields for `--json`."""
        return {key: str(value) for key, value in asdict(self).items()}


def run_checks() -> tuple[Check, ...]:
    """Everything that `asmevo doctor` reports, in its order."""
    groups: tuple[Callable[[], tuple[Check, ...]], ...] = (
        _check_python,
        _check_processor,
        _check_llvm,
        _check_native,
        _check_rocm,
        _check_packages,
        _check_driver_build,
        find_attach_obstacles,
    )
    return tuple(check for group in groups for check in group())


def _check_python() -> tuple[Check, ...]:
    return (Check(name="Python", found=f"{platform.python_version()} {sys.executable}"),)


def find_missing_cpu_features(cpuinfo: str) -> tuple[str, ...]:
    """What the emulated device's machine code needs and this processor does not have."""
    line = next((one for one in cpuinfo.splitlines() if one.startswith("flags")), "")
    return tuple(sorted(set(_CPU_FEATURES) - set(line.partition(":")[2].split())))


def _check_processor() -> tuple[Check, ...]:
    missing = find_missing_cpu_features(Path("/proc/cpuinfo").read_text())
    return (
        Check(
            name="processor",
            found="" if missing else "x86-64-v3",
            problem=f"cannot run the emulated device: no {', '.join(missing)}" if missing else "",
            fix="an x86-64 processor of 2015 or later (Haswell, Zen), or a VM that shows its host's"
            if missing
            else "",
        ),
    )


def _check_llvm() -> tuple[Check, ...]:
    return tuple(
        Check(
            name=f"LLVM {report.role}",
            found=f"{report.version} {report.path} ({report.source})" if report.path else "",
            problem="cannot take code objects apart or put them together" if report.problem else "",
            fix=report.problem.removeprefix("missing: "),
        )
        for report in toolchain.describe()
    )


def _check_native() -> tuple[Check, ...]:
    checks = []
    for name, find in (
        ("emulated device", native.emulator_library),
        ("capture agent", native.capture_library),
        ("shim", native.shim_library),
    ):
        try:
            checks.append(Check(name=name, found=str(find())))
        except AsmevoError as error:
            checks.append(Check(name=name, problem=str(error.args[0]), fix=error.hint or ""))
    return tuple(checks)


def _check_rocm() -> tuple[Check, ...]:
    root = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
    library = root / "lib" / "libamdhip64.so"
    if library.exists() and Path("/dev/kfd").exists():
        return (Check(name="AMD GPU", found=str(library)),)
    missing = "/dev/kfd" if library.exists() else str(library)
    return (
        Check(
            name="AMD GPU",
            problem=f"no {missing}: runs on the emulated device only, times are modelled",
            fix="install ROCm on a machine with an AMD Instinct GPU",
            importance=Importance.OPTIONAL,
        ),
    )


def _check_packages() -> tuple[Check, ...]:
    wanted = (
        ("frida", Importance.REQUIRED, "attach to a process", "pip install frida==17.26.2"),
        ("hip-python", Importance.REQUIRED, "replay", "pip install hip-python"),
        (
            "triton",
            Importance.OPTIONAL,
            "run Triton kernels",
            "pip install --no-deps triton==3.9.0",
        ),
        ("torch", Importance.OPTIONAL, "run the demo server", "pip install torch==2.13.0"),
    )
    return tuple(_check_package(*one) for one in wanted)


def _check_package(name: str, importance: Importance, purpose: str, fix: str) -> Check:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Check(name=name, problem=f"cannot {purpose}", fix=fix, importance=importance)
    return Check(name=name, found=version, importance=importance)


def _check_driver_build() -> tuple[Check, ...]:
    """Triton compiles its driver.c at run time: a compiler named by CC, and Python.h."""
    wrapper = Path(sys.executable).with_name("asmevo-cc")
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, ("gcc", "clang"))), "")
    if not compiler and wrapper.is_file():
        compiler = str(wrapper)
    header = Path(sysconfig.get_path("include")) / "Python.h"
    unpacked = Path(sys.prefix) / "deb" / "usr" / "include" / header.parent.name / "Python.h"
    found_header = next((path for path in (header, unpacked) if path.is_file()), None)
    package = f"libpython{sysconfig.get_python_version()}-dev"
    return (
        Check(
            name="C compiler for Triton",
            found=compiler,
            problem="" if compiler else "Triton cannot build its driver.c",
            fix="apt-get install gcc, or without root: scripts/setup, CC=.venv/bin/asmevo-cc",
            importance=Importance.OPTIONAL,
        ),
        Check(
            name="Python.h for Triton",
            found=str(found_header or ""),
            problem="" if found_header else "Triton cannot build its driver.c",
            fix=f"apt-get install {package}, or without root: scripts/setup unpacks it into .venv",
            importance=Importance.OPTIONAL,
        ),
    )


def find_attach_obstacles() -> tuple[Check, ...]:
    """Why attaching to a process of the same user would be denied on this machine."""
    scope = _read_number(Path("/proc/sys/kernel/yama/ptrace_scope"))
    has_capability = bool(_effective_capabilities() >> _CAP_SYS_PTRACE & 1)
    if scope is None or scope == 0 or (has_capability and scope < _YAMA_NO_ATTACH):
        why = "CAP_SYS_PTRACE" if has_capability else "same user"
        return (Check(name="attach rights", found=f"{why}, ptrace_scope {scope or 0}"),)
    if scope == _YAMA_RESTRICTED:
        problem = "kernel.yama.ptrace_scope is 1: only children and processes that allow it"
    else:
        problem = f"kernel.yama.ptrace_scope is {scope}: attaching needs CAP_SYS_PTRACE"
    return (
        Check(
            name="attach rights",
            problem=problem if scope < _YAMA_NO_ATTACH else "ptrace_scope is 3: off until reboot",
            fix="sudo sysctl kernel.yama.ptrace_scope=0, or start the server through"
            " prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); in a container add --cap-add=SYS_PTRACE",
            importance=Importance.OPTIONAL,
        ),
    )


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
