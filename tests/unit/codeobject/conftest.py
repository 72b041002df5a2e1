"""Code objects assembled from `tests/fixtures` and real Triton kernels, made once a session."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asmevo.codeobject.toolchain import assemble, link

FIXTURES = Path(__file__).parents[2] / "fixtures"

BuildObject = Callable[[str], bytes]


@pytest.fixture(scope="session")
def build_object() -> BuildObject:
    """Assemble and link `tests/fixtures/NAME.s` for gfx942."""

    @functools.cache
    def build(name: str) -> bytes:
        return link(assemble((FIXTURES / f"{name}.s").read_text(), "gfx942"))

    return build


@pytest.fixture(scope="session")
def triton_objects() -> dict[str, bytes]:
    """A copy and a small matrix product, compiled by Triton for three processors."""
    triton = pytest.importorskip("triton")
    # Its absence is a warning, which the test run turns into an error.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    from triton.backends.compiler import GPUTarget
    from triton_kernels import copy_kernel, product_kernel

    def compile_kernel(kernel: Any, signature: dict[str, str], target: str, **values: int) -> bytes:
        names = list(signature)
        pointers = [number for number, name in enumerate(names) if signature[name].startswith("*")]
        attributes = {
            (number,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for number in pointers
        }
        source = triton.compiler.ASTSource(
            fn=kernel,
            signature=signature | dict.fromkeys(values, "constexpr"),
            constexprs={
                (len(names) + place,): value for place, value in enumerate(values.values())
            },
            attrs=attributes,
        )
        compiled = triton.compile(source, target=GPUTarget("hip", target, 64))
        return bytes(compiled.asm["hsaco"])

    copy = {"x": "*fp32", "out": "*fp32", "count": "i32"}
    product = {"a": "*bf16", "b": "*bf16", "out": "*fp32"}
    objects = {}
    for target in ("gfx90a", "gfx942", "gfx950"):
        objects[f"copy-{target}"] = compile_kernel(copy_kernel, copy, target, block=1024)
        objects[f"product-{target}"] = compile_kernel(product_kernel, product, target, size=32)
    return objects
