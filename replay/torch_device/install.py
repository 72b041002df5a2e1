"""Sets the emulated device up in a torch that is being imported, or was."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["InstallError", "install_backend", "install_late"]

# Modules that decide by what torch._C has, when they are imported; in the order of their imports.
_DECIDED_AT_IMPORT = (
    "torch.cuda.memory",
    "torch.cuda.streams",
    "torch.cuda.graphs",
    "torch.cuda.nvtx",
    "torch.cuda",
)


class InstallError(Exception):
    """This torch cannot have the emulated device; the text is one line."""


def _describe_other_build(version: ModuleType) -> str | None:
    """Why a torch that has a GPU backend of its own is left alone; None for a CPU build."""
    if getattr(version, "cuda", None):
        return (
            f"torch {version.__version__} is built for NVIDIA's CUDA and cannot use the emulated "
            "device; install the CPU build: pip install torch "
            "--index-url https://download.pytorch.org/whl/cpu"
        )
    if getattr(version, "xpu", None):
        return f"torch {version.__version__} is built for another GPU; install the CPU build"
    return None


def install_backend(torch_c: ModuleType) -> bool:
    """Register the device in a torch whose `torch._C` is loaded and whose `torch.cuda` is not.

    Returns:
        False for a torch of ROCm, which finds the emulated device by itself.

    Raises:
        InstallError: This torch is built for another GPU, or the backend cannot be built.
    """
    from torch import version

    from . import build

    if version.hip:
        return False
    refusal = _describe_other_build(version)
    if refusal:
        raise InstallError(refusal)
    if not version.__file__:
        raise InstallError("torch has no folder of its own")
    target = build.Target(
        folder=Path(version.__file__).parent,
        version=version.__version__,
        commit=version.git_version or "",
        uses_cxx11_abi=bool(torch_c._GLIBCXX_USE_CXX11_ABI),
    )
    try:
        backend = ctypes.CDLL(str(build.build_backend(target)))
    except (build.BuildError, OSError) as error:
        raise InstallError(str(error)) from error
    backend.asmevo_torch_install.restype = ctypes.c_char_p
    hip_library = os.environ.get("TRITON_LIBHIP_PATH") or "libamdhip64.so"
    failure = backend.asmevo_torch_install(hip_library.encode())
    if failure:
        raise InstallError(failure.decode(errors="replace").partition("\n")[0])
    from . import cuda, settle

    cuda.install(torch_c)
    settle.settle_at_exit()
    return True


def install_late() -> bool:
    """Register the device in a torch that is imported already; import hooks must be in place.

    Returns:
        False for a torch of ROCm.

    Raises:
        InstallError: This torch is built for another GPU, or the backend cannot be built.
    """
    torch_c = sys.modules["torch._C"]
    if hasattr(torch_c, "_cuda_init"):
        return True
    if not install_backend(torch_c):
        return False
    for name in _DECIDED_AT_IMPORT:
        importlib.reload(sys.modules[name])
    return True
