"""Exceptions of asmevo. They mean that the tool could not do its work; a failed check is a value.

AsmevoError
├── UsageError          wrong arguments, files that cannot be read or written
├── TargetError         attach, permission, target died
├── CaptureError        a dispatch could not be captured
├── BundleError         a bundle is damaged, truncated or foreign
├── ReplayError         a replay could not run
├── CodeObjectError     a code object cannot be read, recovered or rebuilt
├── AssemblerError      LLVM refused the assembly
├── DeviceError         the device or its library is missing or broken
├── GateError           the gate's own machinery failed
└── MissingToolError    something must be installed (`asmevo doctor` explains)
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AsmevoError",
    "AssemblerError",
    "BundleError",
    "CaptureError",
    "CodeObjectError",
    "DeviceError",
    "GateError",
    "MissingToolError",
    "ReplayError",
    "TargetError",
    "UsageError",
]


class AsmevoError(Exception):
    """Base of all errors: one line that says what happened, and a hint for the next step."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the message on one line; `hint` names the next thing to try."""
        super().__init__(" ".join(message.split()))
        self.hint = hint

    def __str__(self) -> str:
        """Message and hint, as the command line prints them."""
        message = str(self.args[0])
        return f"{message} ({self.hint})" if self.hint else message


class UsageError(AsmevoError):
    """Wrong arguments, or a file that cannot be read or written."""

    exit_code = 2


class TargetError(AsmevoError):
    """The target process cannot be attached to, is not a HIP process, or died."""


class CaptureError(AsmevoError):
    """A dispatch could not be captured."""


class BundleError(AsmevoError):
    """A bundle is damaged, truncated or not a bundle: as an input file, a wrong argument."""

    exit_code = 2


class ReplayError(AsmevoError):
    """A replay could not be run."""


class CodeObjectError(AsmevoError):
    """A code object cannot be read, recovered or rebuilt: as an input file, a wrong argument."""

    exit_code = 2


class AssemblerError(AsmevoError):
    """LLVM refused assembly text or objects."""


class DeviceError(AsmevoError):
    """The device, or the library that drives it, is missing or broken."""


class GateError(AsmevoError):
    """The gate's own machinery failed; says nothing about the candidate."""


class MissingToolError(AsmevoError):
    """Something must be installed first; `asmevo doctor` lists what and how."""

    exit_code = 4
