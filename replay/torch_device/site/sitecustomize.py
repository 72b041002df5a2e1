"""Read by each Python that starts with this folder in PYTHONPATH: see asmevo's docs/emulate.md."""

import importlib
import importlib.machinery
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = "asmevo_torch_device"


def _load(spec: importlib.machinery.ModuleSpec) -> None:
    module = type(sys)(spec.name)
    module.__spec__ = spec
    module.__file__ = spec.origin
    if spec.submodule_search_locations is not None:
        module.__path__ = spec.submodule_search_locations
        module.__package__ = spec.name
    sys.modules[spec.name] = module
    if spec.loader is not None:
        spec.loader.exec_module(module)


def _load_next_sitecustomize() -> None:
    """Run the one that this file stands before."""
    paths = [path for path in sys.path if os.path.abspath(path) != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None:
        _load(spec)


def _watch_torch() -> None:
    folder = os.path.dirname(_FOLDER)
    path = os.path.join(folder, "__init__.py")
    loader = importlib.machinery.SourceFileLoader(_PACKAGE, path)
    spec = importlib.machinery.ModuleSpec(_PACKAGE, loader, origin=path, is_package=True)
    spec.submodule_search_locations = [folder]
    _load(spec)
    importlib.import_module(f"{_PACKAGE}.imports").watch_imports()


_watch_torch()
_load_next_sitecustomize()
