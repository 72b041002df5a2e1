"""Runs under `asmevo emulate`: tensors of device cuda, each property as one function that asserts.

Prints as JSON what came of each function: true, or the error.
"""

# mypy: disable-error-code="no-untyped-call,untyped-decorator"
from __future__ import annotations

import copy
import ctypes
import inspect
import io
import json
import os
import pickle
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

CUDA = torch.device("cuda", 0)
HIP = ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])


def raises(kind: type[Exception], match: str) -> AbstractContextManager[Any]:
    return pytest.raises(kind, match=match)


@triton.jit
def add_one(source, target, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
    index = tl.program_id(0) * block + tl.arange(0, block)
    mask = index < count
    tl.store(target + index, tl.load(source + index, mask=mask) + 1, mask=mask)


def find_allocation(address: int) -> tuple[int, int]:
    base, size = ctypes.c_void_p(), ctypes.c_size_t()
    status = HIP.hipMemGetAddressRange(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_void_p(address)
    )
    assert status == 0
    return base.value or 0, size.value


def tensors_say_where_they_are() -> None:
    for tensor in (
        torch.empty(3, device="cuda"),
        torch.ones(3).cuda(),
        torch.ones(3).to("cuda"),
        torch.tensor([1, 2], device="cuda:0"),
        torch.arange(4, device=CUDA),
        torch.ones(3).to(CUDA, torch.half, non_blocking=True),
        torch.nn.Linear(2, 3).cuda().weight,
    ):
        assert tensor.is_cuda
        assert tensor.device == CUDA
        assert tensor.get_device() == 0
    assert not torch.ones(3).is_cuda


def storages_are_allocations_of_their_size() -> None:
    tensor = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert find_allocation(tensor.data_ptr()) == (tensor.data_ptr(), 1000)
    assert find_allocation(tensor[400:].data_ptr()) == (tensor.data_ptr(), 1000)
    before = torch.cuda.memory_allocated()
    other = torch.empty(4096, device="cuda")
    assert torch.cuda.memory_allocated() == before + 4 * 4096
    del other
    assert torch.cuda.memory_allocated() == before
    assert torch.empty(0, device="cuda").data_ptr() == 0


def views_share_memory() -> None:
    base = torch.arange(24.0, device="cuda").view(4, 6)
    for view in (base.t(), base[1:], base[:, ::2], base.diagonal(), base.unfold(1, 2, 2)):
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert view._is_view()
        view.zero_()
        assert (view == 0).all()
        base.copy_(torch.arange(24.0).view(4, 6))
    pairs = torch.view_as_complex(base.view(4, 3, 2))
    pairs.mul_(1j)
    assert base[0, :2].tolist() == [-1.0, 0.0]
    assert base.view(torch.int32).data_ptr() == base.data_ptr()


def in_place_operations_change_the_tensor() -> None:
    tensor = torch.zeros(4, device="cuda")
    address, version = tensor.data_ptr(), tensor._version
    assert tensor.add_(1) is tensor
    tensor[1] = 5
    tensor[torch.tensor([2, 3])] = torch.tensor([7.0, 8.0], device="cuda")
    tensor.masked_fill_(tensor == 8, 9)
    assert tensor.tolist() == [1.0, 5.0, 7.0, 9.0]
    assert tensor.data_ptr() == address
    assert tensor._version > version


def out_arguments_are_written_and_resized() -> None:
    x = torch.rand(5, 5, device="cuda")
    out = torch.empty(0, device="cuda")
    assert torch.add(x, 1, out=out) is out
    assert out.shape == (5, 5)
    assert out.is_cuda
    assert torch.equal(out, x + 1)
    values, indices = torch.empty(0, device="cuda"), torch.empty(0, dtype=torch.long, device="cuda")
    torch.sort(x, out=(values, indices))
    assert torch.equal(values, x.sort().values)
    assert find_allocation(values.data_ptr())[1] == 100
    with raises(RuntimeError, "same device"):
        torch.add(x, 1, out=torch.empty(5, 5))


def devices_are_not_mixed() -> None:
    x, y = torch.ones(3, device="cuda"), torch.ones(3)
    for mix in (
        lambda: x + y,
        lambda: torch.where(x > 0, x, y),
        lambda: torch.cat([x, y]),
        lambda: torch.nn.functional.linear(x, y.expand(3, 3)),
        lambda: y[torch.tensor([0], device="cuda")],
        lambda: x.masked_fill(y > 0, 1),
    ):
        with raises(RuntimeError, "device|cpu"):
            mix()
    assert (x + torch.tensor(2.0)).is_cuda
    assert x[torch.tensor([0, 1])].is_cuda
    assert x[y > 0].is_cuda
    with raises(TypeError, "can't convert cuda:0 device type tensor to numpy"):
        x.numpy()


def copies_convert_between_devices() -> None:
    source = torch.randn(4, 6)
    there = source.t().to("cuda", torch.bfloat16)
    assert there.stride() == source.t().stride()
    assert torch.equal(there.cpu(), source.t().bfloat16())
    pinned = source.pin_memory()
    assert pinned.is_pinned()
    assert not source.is_pinned()
    back = torch.empty(6, 4)
    back.copy_(pinned.cuda(non_blocking=True).t(), non_blocking=True)
    assert torch.equal(back, source.t())
    small = source.cuda().to(torch.float8_e4m3fn)
    assert torch.equal(small.float().cpu(), source.to(torch.float8_e4m3fn).float())
    conjugated = torch.randn(3, dtype=torch.complex64, device="cuda").conj()
    assert conjugated.is_conj()
    assert torch.equal(conjugated.cpu(), conjugated.resolve_conj().cpu())


def gradients_live_on_the_device() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: torch.Tensor) -> Any:
            context.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Any:
            (x,) = context.saved_tensors
            return 3 * x**2 * gradients[0]

    x = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    apply: Callable[..., torch.Tensor] = Cube.apply
    apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.is_cuda
    assert x.grad.tolist() == [3.0, 12.0]
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 12.0]
    (lazy,) = torch.autograd.grad(torch.sgn(x).sum(), x)  # a tensor of zeros without memory
    assert (lazy + 1).tolist() == [1.0, 1.0]


def modules_train_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    host = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, groups=2),
        torch.nn.BatchNorm2d(4),
        torch.nn.Flatten(),
        torch.nn.LayerNorm(144),
        torch.nn.Unflatten(1, (9, 16)),
        torch.nn.LSTM(16, 8, batch_first=True),
    )
    device = copy.deepcopy(host).cuda()
    data = torch.randn(3, 2, 8, 8)
    for _ in range(2):
        for model, x in ((host, data), (device, data.cuda())):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(x)[0].square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    for expected, found in zip(host.parameters(), device.parameters(), strict=True):
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-4)


def half_precision_sums_are_kept_in_float() -> None:
    x = torch.randn(1000, 8, device="cuda").half().requires_grad_()
    weight = torch.ones(8, device="cuda", dtype=torch.half, requires_grad=True)
    torch.nn.functional.layer_norm(x, (8,), weight).sum(0)[0].backward()
    normal = torch.nn.functional.layer_norm(x.detach().double(), (8,))
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad[0].double(), normal[:, 0].sum(), rtol=2e-3, atol=2e-2)
    table = torch.zeros(2, 4, device="cuda", dtype=torch.half, requires_grad=True)
    torch.nn.functional.embedding(torch.zeros(4100, device="cuda").long(), table).sum().backward()
    assert table.grad is not None
    assert table.grad[0].tolist() == [4100.0] * 4


def random_numbers_are_the_devices_own() -> None:
    before = torch.get_rng_state()
    torch.randn(3, device="cuda")
    torch.nn.functional.dropout(torch.ones(64, device="cuda"))
    torch.randperm(5, device="cuda")
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    first = torch.rand(4, device="cuda")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4, device="cuda"), first)
    assert not torch.equal(torch.rand(4, device="cuda"), first)
    own = torch.Generator(device="cuda").manual_seed(3)
    assert torch.equal(torch.rand(4, device="cuda", generator=own), first)
    with raises(RuntimeError, "Expected a 'cuda' device type for generator"):
        torch.rand(4, device="cuda", generator=torch.Generator())


def tensors_survive_files_and_copies() -> None:
    tensor = torch.arange(6.0, device="cuda").view(2, 3).t()
    assert torch.equal(pickle.loads(pickle.dumps(tensor)), tensor)
    file = io.BytesIO()
    torch.save({"x": tensor}, file)
    for location, is_cuda in ((None, True), ("cpu", False), ("cuda:0", True)):
        file.seek(0)
        loaded = torch.load(file, map_location=location)["x"]
        assert loaded.is_cuda == is_cuda
        assert torch.equal(loaded.cpu(), tensor.cpu())
    twin = copy.deepcopy(tensor)
    assert twin.is_cuda
    assert twin.data_ptr() != tensor.data_ptr()
    assert "device='cuda:0'" in repr(tensor)


def results_equal_the_cpus() -> None:
    torch.manual_seed(1)
    x, y = torch.randn(6, 6), torch.rand(6, 6)
    functions: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
        lambda a, b: a @ b,
        lambda a, b: torch.linalg.svd(a).S,
        lambda a, b: torch.fft.rfft(a),
        lambda a, b: a.topk(3),
        lambda a, b: torch.unique((b * 4).long()),
        lambda a, b: torch.einsum("ij,kj->ik", a, b),
        lambda a, b: torch.cumsum(a, 1).clamp(-1, 1),
        lambda a, b: a.split(2),
        lambda a, b: torch.nonzero(b > 0.5),
        lambda a, b: a.scatter_add(0, (b * 6).long(), b),
        lambda a, b: torch.nn.functional.scaled_dot_product_attention(a[None], b[None], a[None]),
        lambda a, b: torch.nn.functional.interpolate(a[None, None], scale_factor=2.0),
        lambda a, b: torch.stack([a, b]).quantile(0.3, dim=0),
        lambda a, b: torch._foreach_mul([a, b], 2),
        lambda a, b: (a.abs().log_softmax(0), torch.var_mean(a), b.histc(4)),
        torch.nn.functional.cross_entropy,
    ]
    for function in functions:
        torch.testing.assert_close(
            function(x.cuda(), y.cuda()), function(x, y), check_device=False, rtol=1e-4, atol=1e-5
        )


def threads_share_the_device() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        try:
            source = torch.full((100,), float(seed), device="cuda", requires_grad=True)
            target = torch.empty(100, device="cuda")
            for _ in range(5):
                add_one[(1,)](source, target, 100, 128)
            (source * 2).sum().backward()
            assert source.grad is not None
            assert target.tolist() == [seed + 1.0] * 100
            assert source.grad.tolist() == [2.0] * 100
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def forked_child_has_no_device() -> None:
    torch.ones(1, device="cuda")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="cuda")
            text = "no error"
        except RuntimeError as error:
            text = str(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "Cannot re-initialize CUDA in forked subprocess" in pipe.read()
    os.waitpid(child, 0)


def products_of_fp8_take_the_formats_of_both_chips() -> None:
    left, right = torch.randn(16, 32), torch.randn(8, 32)
    row, column = torch.rand(16, 1, device="cuda"), torch.rand(1, 8, device="cuda")
    for kind in (torch.float8_e4m3fnuz, torch.float8_e4m3fn):
        a, b = left.cuda().to(kind), right.cuda().to(kind).t()
        product = a.cpu().double() @ b.cpu().double()
        half = torch.full((), 0.5, device="cuda")
        whole = torch._scaled_mm(a, b, half, half, out_dtype=torch.float32)
        torch.testing.assert_close(whole.cpu().double(), product * 0.25, atol=1e-4, rtol=1e-5)
        parts = torch._scaled_mm(a, b, row, column, out_dtype=torch.bfloat16)
        wanted = product * row.cpu().double() * column.cpu().double()
        torch.testing.assert_close(parts.cpu().double(), wanted, atol=1e-2, rtol=1e-2)
    blocks = torch.ones(16, 2, device="cuda")
    with raises(NotImplementedError, "one a row and column"):
        torch._scaled_mm(a, b, blocks, torch.ones(2, 8, device="cuda"))


def access_beyond_a_tensor_ends_the_launch() -> None:
    source, target = torch.ones(1000, device="cuda"), torch.empty(1024, device="cuda")
    add_one[(1,)](source, target, 1000, 1024)
    # Triton 3.9 calls a hook while the launch's RuntimeError is set, which makes it a SystemError.
    with pytest.raises((RuntimeError, SystemError)):
        add_one[(1,)](source, target, 1024, 1024)
    for read in (torch.cuda.synchronize, target.tolist, target.cpu, target.sum, target.clone):
        with raises(torch.AcceleratorError, "719"):
            read()
    HIP.hipDeviceReset()


def main() -> None:
    results: dict[str, Any] = {}
    for name, function in list(globals().items()):
        is_case = inspect.isfunction(function) and function.__module__ == __name__
        if not is_case or name in ("main", "raises", "find_allocation"):
            continue
        try:
            function()
            results[name] = True
        except BaseException as error:
            results[name] = f"{type(error).__name__}: {str(error)[:400]}"
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
