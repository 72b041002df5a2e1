"""Where the explicit arguments of a kernel stand in its kernarg segment, for the hot path, and the
variables of its code object.
"""

from __future__ import annotations

from asmevo.capture.control_block import (
    MAX_ARGUMENTS,
    MAX_KERNARG_BYTES,
    MAX_VARIABLES,
    ArgumentRole,
    Layout,
)
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.elf import Symbol
from asmevo.errors import CaptureError

__all__ = ["find_variables", "make_layout"]


def find_variables(code_object: CodeObject) -> tuple[Symbol, ...]:
    """`__device__` and `__constant__` variables: what the runtime lets a program write to.

    Descriptors of kernels are objects too. clang gives each compilation a variable `__hip_cuid_*`
    that tells it apart; nothing reads it.
    """
    return tuple(
        symbol
        for symbol in code_object.dynamic_symbols
        if symbol.type == "STT_OBJECT"
        and symbol.size
        and symbol.section is not None
        and not symbol.name.endswith(".kd")
        and not symbol.name.startswith("__hip_cuid_")
    )


def make_layout(loaded: LoadedKernel) -> Layout:
    """The layout by the metadata; hidden arguments are left to the runtime.

    Raises:
        CaptureError: More arguments, bytes or variables than a capture takes.
    """
    explicit = [argument for argument in loaded.kernel.arguments if not argument.is_hidden]
    size = max((argument.offset + argument.size for argument in explicit), default=0)
    if len(explicit) > MAX_ARGUMENTS or size > MAX_KERNARG_BYTES:
        raise CaptureError(
            f"it has {len(explicit)} arguments in {size} bytes; a capture takes {MAX_ARGUMENTS} in "
            f"{MAX_KERNARG_BYTES}"
        )
    layout = Layout(argument_count=len(explicit), kernarg_bytes=size)
    for index, argument in enumerate(explicit):
        is_pointer = argument.is_pointer and argument.size == 8
        layout.arguments[index].offset = argument.offset
        layout.arguments[index].size = argument.size
        layout.arguments[index].role = ArgumentRole.POINTER if is_pointer else ArgumentRole.VALUE
        if is_pointer and argument.offset % 8 == 0:
            layout.pointers[argument.offset // 8] = 1
    variables = find_variables(loaded.code_object)
    if len(variables) > MAX_VARIABLES:
        raise CaptureError(
            f"its code object has {len(variables)} variables; a capture takes {MAX_VARIABLES}"
        )
    layout.variable_count = len(variables)
    for index, variable in enumerate(variables):
        layout.variables[index].address = loaded.load_bias + variable.value
        layout.variables[index].size = variable.size
    return layout
