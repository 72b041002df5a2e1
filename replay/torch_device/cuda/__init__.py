"""The C bindings of torch.cuda, for a torch that was built without CUDA.

torch's own Python code in `torch.cuda` runs unchanged; what it calls in `torch._C` is provided
here, on top of the process' HIP runtime. `install` is to be called after `torch._C` is loaded and
before `torch.cuda` is imported. What is covered is listed in docs/torch-cuda.md; the rest refuses
by name.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["bindings", "install"]

# What torch.version.hip says. Libraries look whether it is there, rarely at the number.
HIP_VERSION = "7.2.0"


def bindings() -> dict[str, Any]:
    """Every name that is added to `torch._C`, with what stands behind it."""
    from . import cudart, device, graph, memory, refusal, settings, stream, tracing

    result: dict[str, Any] = {
        name: refusal.refuse(f"torch._C.{name}") for name in refusal.REFUSED_FUNCTIONS
    }
    result |= {name: refusal.refused_class(name) for name in refusal.REFUSED_CLASSES}
    for module in (device, stream, memory, graph, settings):
        result |= module.BINDINGS
    result |= {"_cudart": cudart.make_module(), "_nvtx": tracing.make_module(), "_has_cuda": True}
    return result


def install(torch_c: ModuleType) -> None:
    """Add the bindings to `torch._C`."""
    import torch.version

    vars(torch_c).update(bindings())
    torch.version.hip = HIP_VERSION
