"""Where the native parts are: built into `asmevo/_native` by the package's build."""

from __future__ import annotations

import functools
import mmap
from pathlib import Path

from asmevo.errors import MissingToolError
from asmevo.native_exports import EMULATOR_EXPORTS

__all__ = [
    "capture_library",
    "capture_preload_library",
    "emulator_folder",
    "emulator_library",
    "hold_library",
    "page_watch_library",
    "shim_library",
]

_NATIVE = Path(__file__).parent / "_native"


def _get(relative: str) -> Path:
    path = _NATIVE / relative
    if not path.is_file():
        raise MissingToolError(
            f"native part {path} is missing",
            hint="build the package again: pip install -e . (in a checkout: scripts/setup)",
        )
    return path


@functools.cache
def _require_exports(library: Path, names: tuple[str, ...]) -> None:
    """Refuse a library that was built from older sources than its callers."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        missing = next((name for name in names if image.find(name.encode() + b"\0") < 0), None)
    if missing is not None:
        raise MissingToolError(
            f"{library} is older than the Python beside it: it has no {missing}",
            hint="build the native parts again: scripts/build",
        )


def emulator_library() -> Path:
    """The emulated device's libamdhip64.so, with all that asmevo calls in it."""
    library = _get("emulator/libamdhip64.so")
    _require_exports(library, EMULATOR_EXPORTS)
    return library


def emulator_folder() -> Path:
    """The folder to put into LD_LIBRARY_PATH to run a program on the emulated device."""
    return emulator_library().parent


def capture_library() -> Path:
    """The resident C hot path that capture loads into its target."""
    return _get("libasmevo_capture.so")


def capture_preload_library() -> Path:
    """What brings the capture library into a program that is captured from its start."""
    return _get("libasmevo_capture_preload.so")


def hold_library() -> Path:
    """What keeps captured addresses free in a replay worker, for LD_PRELOAD."""
    return _get("libasmevo_hold.so")


def page_watch_library() -> Path:
    """What notes the pages that a dispatch touches on the emulated device."""
    return _get("libasmevo_page_watch.so")


def shim_library() -> Path:
    """The load-path interposer for LD_PRELOAD."""
    return _get("libasmevo_shim.so")
