"""Sets the emulated device up in torch, when torch is imported."""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

__all__ = ["InstallError", "install_backend", "watch_imports"]


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
    from . import cuda

    cuda.install(torch_c)
    return True


def _set_up(torch_c: ModuleType) -> None:
    try:
        install_backend(torch_c)
    except InstallError as error:
        # Torch stays as it is: a program that only uses the CPU runs, any other says what it lacks.
        print(f"asmevo: no emulated device in torch: {error}", file=sys.stderr, flush=True)


def _complete(torch_cuda: ModuleType) -> None:
    from . import cuda

    cuda.complete_if_installed(torch_cuda)


class _Loader:
    """Loads a module as its own loader does, and then calls a function on it."""

    def __init__(self, inner: Any, then: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._then(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Finder:
    """Finds a few modules as the other finders do, with functions to call once they are loaded."""

    def __init__(self, then: dict[str, Callable[[ModuleType], None]]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        then = self._then.get(name)
        if then is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = cast(Any, _Loader(spec.loader, then))
                return spec
        return None


def watch_imports() -> None:
    """Set the device up as soon as this process imports torch; costs nothing before."""
    from . import benchmark

    then = {"torch._C": _set_up, "torch.cuda": _complete}
    if benchmark.are_skipped():
        then["triton.testing"] = benchmark.skip_reports
    sys.meta_path.insert(0, _Finder(then))
