"""Compare CUDA tensors on the emulated device with the CPU, over torch's own list of operators.

    asmevo emulate -- python scripts/verify_torch_operators.py [float32] [--gradients] [--filter RE]

The operators and their samples are those of torch's own tests (op_db). Prints each operator that
differs, and how many were compared. Needs the package expecttest, which torch's test code imports.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Their results are random or undefined, so that only type and shape are compared.
RANDOM = re.compile(
    "rand|normal|bernoulli|dropout|multinomial|exponential|cauchy|geometric|uniform|empty|rrelu|"
    "lowrank|fractional_max_pool|attention"
)
TOLERANCES = {torch.bfloat16: (3e-2, 1e-2), torch.float16: (3e-3, 1e-3)}
FACTOR = 0.7  # of the gradients that flow into each result


def move(value: Any) -> Any:
    """The value with its tensors, and the devices that it names, on the device."""

    def move_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().cuda().requires_grad_(leaf.requires_grad)
        return "cuda" if str(leaf) == "cpu" else leaf

    return pytree.tree_map(move_leaf, value)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors in a structure."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def differentiate(results: list[torch.Tensor], operands: Any) -> list[torch.Tensor]:
    """The gradients of all operands that want one."""
    outputs = [result for result in results if result.requires_grad]
    inputs = [operand for operand in tensors_of(operands) if operand.requires_grad]
    seeds = [torch.full_like(output, FACTOR) for output in outputs]
    gradients = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def compare(operator: Any, sample: Any, dtype: torch.dtype, gradients: bool) -> str | None:
    """What differs; None for nothing, also where the CPU itself refuses the sample."""
    operands = (sample.input, sample.args, sample.kwargs)
    if any(tensor.layout != torch.strided for tensor in tensors_of(operands)):
        return None
    moved = move(operands)
    try:
        expected = tensors_of(operator(operands[0], *operands[1], **operands[2]))
        expected_gradients = differentiate(expected, operands) if gradients else []
    except Exception:
        return None
    try:
        found = tensors_of(operator(moved[0], *moved[1], **moved[2]))
        found_gradients = differentiate(found, moved) if gradients else []
        check(expected + expected_gradients, found + found_gradients, operator.name, dtype)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None


def check(
    expected: list[torch.Tensor], found: list[torch.Tensor], name: str, dtype: torch.dtype
) -> None:
    """Raise AssertionError unless the tensors are on the device and equal within the tolerance."""
    rtol, atol = TOLERANCES.get(dtype, (1e-4, 1e-4))
    for one, other in zip(expected, found, strict=True):
        assert other.is_cuda, "a result is not on the device"
        assert one.dtype == other.dtype, f"{one.dtype} became {other.dtype}"
        assert one.shape == other.shape, f"{one.shape} became {other.shape}"
        if not RANDOM.search(name):
            torch.testing.assert_close(other.cpu(), one, rtol=rtol, atol=atol, equal_nan=True)


def read_operators(dtype: torch.dtype, pattern: str, gradients: bool) -> Iterator[Any]:
    """The operators that the CPU has for the type."""
    from torch.testing._internal.common_methods_invocations import op_db

    listed: list[Any] = op_db
    for operator in listed:
        types = operator.supported_dtypes("cpu")
        if gradients:
            can_differentiate = operator.supports_autograd
            types = operator.supported_backward_dtypes("cpu") if can_differentiate else ()
        if dtype in types and re.search(pattern, operator.name):
            yield operator


def main() -> None:
    """Compare and print; exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(description="Compare operators on the device with the CPU's")
    parser.add_argument("dtype", nargs="?", default="float32")
    parser.add_argument("--gradients", action="store_true", help="compare gradients too")
    parser.add_argument("--filter", default="", help="regular expression of names")
    parser.add_argument("--samples", type=int, default=6, help="samples of each operator")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype = getattr(torch, arguments.dtype)
    operators = samples = differing = 0
    for operator in read_operators(dtype, arguments.filter, arguments.gradients):
        operators += 1
        for index, sample in enumerate(
            operator.sample_inputs("cpu", dtype, requires_grad=arguments.gradients)
        ):
            if index == arguments.samples:
                break
            samples += 1
            difference = compare(operator, sample, dtype, arguments.gradients)
            if difference:
                differing += 1
                print(f"{operator.name} {operator.variant_test_name}: {difference}", flush=True)
                break
    print(f"{operators} operators, {samples} samples, {differing} operators differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
