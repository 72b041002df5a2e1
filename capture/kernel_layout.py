"""Where the explicit arguments of a kernel stand in its kernarg segment, for the hot path."""

from __future__ import annotations

from asmevo.capture.control_block import MAX_ARGUMENTS, MAX_KERNARG_BYTES, Layout
from asmevo.codeobject.code_object import Kernel
from asmevo.errors import CaptureError

__all__ = ["make_layout"]


def make_layout(kernel: Kernel) -> Layout:
    """The layout by the metadata; hidden arguments are left to the runtime.

    Raises:
        CaptureError: More arguments or bytes than a capture takes.
    """
    explicit = [argument for argument in kernel.arguments if not argument.is_hidden]
    size = max((argument.offset + argument.size for argument in explicit), default=0)
    if len(explicit) > MAX_ARGUMENTS or size > MAX_KERNARG_BYTES:
        raise CaptureError(
            f"it has {len(explicit)} arguments in {size} bytes; a capture takes {MAX_ARGUMENTS} in "
            f"{MAX_KERNARG_BYTES}"
        )
    layout = Layout(argument_count=len(explicit), kernarg_bytes=size)
    for index, argument in enumerate(explicit):
        layout.arguments[index].offset = argument.offset
        layout.arguments[index].size = argument.size
        if argument.is_pointer and argument.size == 8 and argument.offset % 8 == 0:
            layout.pointers[argument.offset // 8] = 1
    return layout
