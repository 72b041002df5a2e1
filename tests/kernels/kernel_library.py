"""Imports modules out of unpacked wheels, without the packages' own start-up.

A wheel is not installed. Its packages' `__init__` files, which would import compiled extensions and
hundreds of modules, do not run unless they are named; a module that is not under test (compiled
operations, the serving engine) is replaced by a stand-in that refuses to be used. The modules with
the wrappers and the kernels are always the wheel's own files.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Library", "Unavailable", "cache_folder", "get_library", "prepare_library"]


class Unavailable:
    """What a stand-in module holds: can be named, subclassed or used as decorator, nothing else.

    A call is answered where modules and classes are defined; in a function that runs it is refused,
    as any other use is, so that no result depends on a stand-in.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Unavailable:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unavailable(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A decorator gives back what it decorates; with arguments it gives a decorator."""
        if sys._getframe(1).f_code.co_flags & inspect.CO_OPTIMIZED:
            self._refuse()
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return Unavailable(f"{self._name}(…)")

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return ()

    def __getitem__(self, item: Any) -> Unavailable:
        return self

    def __or__(self, other: Any) -> Unavailable:
        return self

    __ror__ = __or__

    def _refuse(self, *args: Any) -> Any:
        raise RuntimeError(f"{self._name} is a stand-in: it is not part of what is verified")

    __bool__ = __iter__ = __len__ = __int__ = __float__ = __index__ = __enter__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """How the modules of one wheel are imported."""

    name: str
    """Folder of the unpacked wheel: NAME-VERSION in the cache of scripts/fetch_inputs.py."""
    version: str
    packages: tuple[str, ...]
    """Top-level packages of the wheel."""
    started_packages: Container[str] = frozenset()
    """Packages whose `__init__` runs."""
    unavailable: tuple[str, ...] = ()
    """Modules, with all below them, that are stand-ins."""
    stand_ins: Mapping[str, Callable[[str], Mapping[str, Any]]] = field(default_factory=dict)
    """Members of a module that we provide, made for an architecture."""
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Other unpacked wheels that it imports, as NAME-VERSION."""
    prepare: Callable[[str], None] | None = None
    """Called with the architecture before the first import."""


_prepared: set[str] = set()


def get_library(name: str) -> Library:
    """The record `LIBRARY` of the module NAME_library."""
    library = importlib.import_module(f"{name}_library").LIBRARY
    assert isinstance(library, Library)
    return library


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the library's modules: stand-ins first, then files, packages without their start-up."""

    def __init__(self, library: Library, root: Path, arch: str) -> None:
        self._library, self._root, self._arch = library, root, arch

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Specification of a module that we provide; None leaves it to Python."""
        if fullname in self._library.stand_ins or self._is_unavailable(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if fullname.partition(".")[0] not in self._library.packages:
            return None
        place = self._root.joinpath(*fullname.split("."))
        if not place.is_dir():
            file = place.with_suffix(".py")
            return (
                importlib.util.spec_from_file_location(fullname, file) if file.is_file() else None
            )
        is_started = fullname in self._library.started_packages
        if is_started and (place / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(
                fullname, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec

    def _is_unavailable(self, name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in self._library.unavailable)

    def exec_module(self, module: ModuleType) -> None:
        """Fill a stand-in, or a package without start-up."""
        name = module.__name__
        members = self._library.stand_ins.get(name)
        if members is not None:
            vars(module).update(members(self._arch))
        if members is None or self._is_unavailable(name):
            vars(module)["__getattr__"] = partial(self._find_member, module)

    def _find_member(self, module: ModuleType, member: str) -> Any:
        """A submodule, or for what a package's start-up would have defined an `Unavailable`."""
        name = f"{module.__name__}.{member}"
        if member.startswith("__"):
            raise AttributeError(name)
        is_ours = name in self._library.stand_ins or not self._is_unavailable(name)
        if is_ours and self.find_spec(name, None) is not None:
            return importlib.import_module(name)
        return Unavailable(name)


def cache_folder(name: str) -> Path:
    """A folder in the cache of asmevo."""
    root = os.environ.get("ASMEVO_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "asmevo") / name


def _find_unpacked(name: str) -> Path:
    folder = cache_folder("inputs") / name
    if not folder.is_dir():
        raise FileNotFoundError(f"no {folder}: run scripts/fetch_inputs.py --kernels")
    return folder


def prepare_library(name: str, arch: str) -> None:
    """Make `import` find the library's modules."""
    if name in _prepared:
        return
    library = get_library(name)
    root = _find_unpacked(f"{library.name}-{library.version}")
    sys.path += [str(_find_unpacked(other)) for other in library.needs]
    os.environ.update(library.environment)
    sys.meta_path.insert(0, _Finder(library, root, arch))
    _prepared.add(name)
    if library.prepare is not None:
        library.prepare(arch)
