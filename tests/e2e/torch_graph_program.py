"""Runs under `asmevo emulate`: captures and replays CUDA graphs and prints the results as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

cuda: Any = torch.cuda


@triton.jit  # type: ignore[untyped-decorator]
def double_kernel(source, target, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    values = tl.load(source + offsets, mask=offsets < n)
    tl.store(target + offsets, values * 2, mask=offsets < n)


def double(x: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, result, x.numel(), block=64)
    return result


def ones(n: int = 100) -> torch.Tensor:
    return torch.ones(n, device="cuda")


def capture(work: Callable[[], Any]) -> tuple[Any, Any]:
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        result = work()
    return graph, result


def mix_launches_and_operations() -> list[float]:
    x = ones()
    double(x)  # compiled outside of the capture
    graph, result = capture(lambda: double(x + 1).sum() + 3)  # what is between belongs to the graph
    x.fill_(4)
    graph.replay()
    first = result.item()
    x.fill_(0)
    graph.replay()
    return [first, result.item()]  # (4+1)*2*100+3, (0+1)*2*100+3


def write_in_place() -> list[float]:
    x = ones()
    graph, _ = capture(lambda: x.add_(1))
    after_capture = x[0].item()
    graph.replay()
    graph.replay()
    return [after_capture, x[0].item()]


def write_to_out() -> list[float]:
    x, out = ones(), torch.zeros(100, device="cuda")
    graph, _ = capture(lambda: torch.add(x, x, out=out))
    after_capture = out[0].item()
    graph.replay()
    return [after_capture, out[0].item()]


def keep_running_statistics() -> list[float]:
    layer: Any = torch.nn.BatchNorm1d(4, device="cuda")
    x = torch.full((8, 4), 10.0, device="cuda")
    graph, _ = capture(lambda: layer(x))
    after_capture = layer.running_mean[0].item()
    graph.replay()
    return [after_capture, layer.running_mean[0].item()]


def copy_from_host() -> list[float]:
    host, x = torch.zeros(4), torch.zeros(4, device="cuda")
    graph, _ = capture(lambda: x.copy_(host))
    host.fill_(7)
    graph.replay()
    return [x[0].item()]


def free_memory_of_graph() -> list[int]:
    x = ones(1000)
    before = cuda.memory_allocated()
    graph, result = capture(lambda: (x + 1) * 2)
    held = cuda.memory_allocated() - before
    del result
    kept = cuda.memory_allocated() - before
    graph.reset()
    return [held, kept, cuda.memory_allocated() - before]


def read_item_in_capture() -> str:
    x = ones()
    try:
        capture(x.sum().item)
    except torch.AcceleratorError as error:
        return f"{vars(error)['error_code']}: {error}"
    return "no error"


def fail_at_replay() -> str:
    table = torch.zeros(4, 4, device="cuda")
    index = torch.zeros(1, dtype=torch.int64, device="cuda")
    graph, _ = capture(lambda: torch.nn.functional.embedding(index, table))
    index.fill_(9)
    try:
        graph.replay()
    except RuntimeError as error:
        return str(error)
    return "no error"


def replay_after_failure() -> list[float]:
    return mix_launches_and_operations()


def graph_a_module() -> float:
    torch.manual_seed(0)
    layer: Any = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)
    ).cuda()
    graphed = cuda.make_graphed_callables(layer, (torch.randn(3, 8, device="cuda"),))
    x = torch.randn(3, 8, device="cuda")
    graphed(x).sum().backward()
    gradients = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    y: Any = torch.nn.functional.linear(
        torch.nn.functional.gelu(torch.nn.functional.linear(x, layer[0].weight, layer[0].bias)),
        layer[2].weight,
        layer[2].bias,
    )
    y.sum().backward()
    errors = [(p.grad - g).abs().max() for p, g in zip(layer.parameters(), gradients, strict=True)]
    return float(max(error.item() for error in errors))


CASES = (
    mix_launches_and_operations,
    write_in_place,
    write_to_out,
    keep_running_statistics,
    copy_from_host,
    free_memory_of_graph,
    read_item_in_capture,
    fail_at_replay,
    replay_after_failure,
    graph_a_module,
)


def main() -> None:
    json.dump({case.__name__: case() for case in CASES}, sys.stdout)


if __name__ == "__main__":
    main()
