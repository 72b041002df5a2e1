"""Sees torch being imported: all that a process does which never imports it."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

__all__ = ["watch_imports"]


def _set_up(torch_c: ModuleType) -> None:
    from . import install

    try:
        install.install_backend(torch_c)
    except install.InstallError as error:
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
        vars(module)["__loader__"] = self._inner
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
    """Set the device up as soon as this process imports torch."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    from . import autotune, benchmark

    then = {"torch._C": _set_up, "torch.cuda": _complete}
    if benchmark.are_skipped():
        then["triton.testing"] = benchmark.skip_reports
    if not autotune.are_timed():
        then["triton.runtime.autotuner"] = autotune.take_first
    sys.meta_path.insert(0, _Finder(then))
