"""Runs under `asmevo emulate`: what programs expect of torch beside torch.cuda itself, as JSON."""

from __future__ import annotations

import copy
import io
import json
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

DEVICE = torch.device("cuda")
any_torch: Any = torch


def use_accelerator() -> bool:
    accelerator = any_torch.accelerator
    accelerator.synchronize()
    with accelerator.device_index(0):
        return bool(
            accelerator.is_available()
            and accelerator.current_accelerator().type == "cuda"
            and accelerator.current_stream().stream_id == 0
            and accelerator.memory_allocated() == torch.cuda.memory_allocated()
        )


def use_generic_stream_and_event() -> bool:
    stream, event = any_torch.Stream(device="cuda"), any_torch.Event(device="cuda")
    stream.record_event(event)
    torch.cuda.current_stream().wait_event(event)
    event.synchronize()
    return bool(event.query() and stream.native_handle)


def keep_streams_of_threads_apart() -> bool:
    seen: list[bool] = []

    def work() -> None:
        side = any_torch.cuda.Stream()
        with torch.cuda.stream(side):
            seen.append(torch.cuda.current_stream() == side)
            seen.append(bool((torch.ones(4, device=DEVICE) + 1).sum() == 8))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return seen == [True, True] and torch.cuda.current_stream().cuda_stream == 0


def copy_module() -> bool:
    module = torch.nn.Linear(3, 3).cuda()
    other = copy.deepcopy(module)
    return (
        other.weight.is_cuda
        and torch.equal(other.weight, module.weight)
        and other.weight.data_ptr() != module.weight.data_ptr()
    )


def save_and_load() -> bool:
    buffer = io.BytesIO()
    torch.save(torch.arange(4, device=DEVICE), buffer)
    places = []
    for place in (None, "cpu", "cuda", torch.device("cuda:0")):
        buffer.seek(0)
        tensor = torch.load(buffer, map_location=place)
        places.append(tensor.device.type)
        assert tensor.tolist() == [0, 1, 2, 3]
    unpickled = pickle.loads(pickle.dumps(torch.arange(3, device=DEVICE)))
    return places == ["cuda", "cpu", "cuda", "cuda"] and bool(unpickled.is_cuda)


def use_pinned_memory() -> bool:
    pinned = torch.arange(3).pin_memory()
    return pinned.is_pinned() and pinned.to(DEVICE, non_blocking=True).tolist() == [0, 1, 2]


def use_generator() -> bool:
    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(4)
    state = generator.get_state()
    first = torch.randn(5, device=DEVICE, generator=generator)
    generator.set_state(state)
    return torch.equal(first, torch.randn(5, device=DEVICE, generator=generator))


def fork_random_numbers() -> bool:
    with torch.random.fork_rng():
        inside = torch.rand(2, device=DEVICE)
    return torch.equal(inside, torch.rand(2, device=DEVICE))


def widen_softmax() -> float:
    """Error of softmax of half precision that gives float, and of its gradient in units of half."""
    x = torch.linspace(-3, 3, 27, device=DEVICE).view(3, 9).half().requires_grad_()
    y = torch.softmax(x, -1, dtype=torch.float32)
    weight = torch.linspace(0, 1, 27, device=DEVICE).view(3, 9)
    (y * weight).sum().backward()  # type: ignore[no-untyped-call]
    z = x.detach().cpu().float().requires_grad_()
    w = torch.softmax(z, -1)
    (w * weight.cpu()).sum().backward()  # type: ignore[no-untyped-call]
    assert y.dtype == torch.float32 and x.grad is not None and z.grad is not None
    assert x.grad.dtype == torch.float16
    return float((y.cpu() - w).abs().max() + (x.grad.cpu() - z.grad).abs().max())


def scale_gradients() -> bool:
    module = torch.nn.Linear(3, 3).cuda()
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, fused=True)
    scaler = any_torch.amp.GradScaler("cuda", init_scale=8.0)
    before = module.weight.detach().clone()
    with torch.autocast("cuda"):
        loss = module(torch.ones(2, 3, device=DEVICE)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.dtype == torch.float32 and not torch.equal(before, module.weight)


def profile_operations() -> bool:
    profiler = any_torch.profiler
    activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    x = torch.ones(8, 8, device=DEVICE)
    with profiler.profile(activities=activities) as profile:
        x @ x
    times = {entry.key: entry.device_time_total for entry in profile.key_averages()}
    return bool(times["aten::mm"] > 0)


def set_backend_flags() -> bool:
    backends = any_torch.backends
    backends.cuda.matmul.allow_tf32 = True
    backends.cudnn.benchmark = True
    backends.cudnn.deterministic = True
    any_torch.use_deterministic_algorithms(True, warn_only=True)
    product = torch.ones(3, 3, device=DEVICE) @ torch.ones(3, 3, device=DEVICE)
    any_torch.use_deterministic_algorithms(False)
    return bool(
        backends.cuda.is_built()
        and backends.cuda.matmul.allow_tf32
        and backends.cudnn.benchmark
        and not backends.cudnn.is_available()
        and (product == 3).all()
    )


def compile_function() -> bool:
    """Inductor's kernels are Triton's, and run on the device."""

    def scale(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).sum(-1)

    x = torch.arange(12.0, device=DEVICE).view(3, 4)
    compiled: Any = torch.compile(scale)
    return torch.equal(compiled(x), scale(x))


CHECKS: tuple[Callable[[], Any], ...] = (
    use_accelerator,
    use_generic_stream_and_event,
    keep_streams_of_threads_apart,
    copy_module,
    save_and_load,
    use_pinned_memory,
    use_generator,
    fork_random_numbers,
    widen_softmax,
    scale_gradients,
    profile_operations,
    set_backend_flags,
    compile_function,
)


def main() -> None:
    json.dump({check.__name__: check() for check in CHECKS}, sys.stdout)


if __name__ == "__main__":
    main()
