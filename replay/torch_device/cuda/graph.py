"""CUDA graphs: the device's stream capture behind torch.cuda.CUDAGraph.

Launches of Triton and what the backend enqueues on the captured stream become nodes of a HIP graph;
a replay runs them again in the order of capture.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any, Self

import torch

from . import hip
from .refusal import NotCoveredError
from .stream import current_handle

__all__ = ["BINDINGS", "GraphBase", "is_capturing", "pool_handle"]

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}  # hipStreamCaptureMode
_pool_ids = itertools.count(1)


def pool_handle() -> tuple[int, int]:
    """A name for a pool; memory is never shared, so the name is all there is."""
    return (0, next(_pool_ids))


def is_capturing() -> bool:
    """Whether the current stream is being captured."""
    is_initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    handle = current_handle() if is_initialized else 0
    if not handle:  # the null stream cannot be captured
        return False
    state = ctypes.c_int()
    hip.call("hipStreamIsCapturing", ctypes.c_void_p(handle), ctypes.byref(state))
    return state.value == 1


class GraphBase:
    """What torch.cuda.CUDAGraph is derived from."""

    _keeps_graph: bool
    _stream: int
    _capture: int  # the backend's number of an ended capture; 0: none
    _graph: ctypes.c_void_p
    _executable: ctypes.c_void_p
    _pool: tuple[int, int]

    def __new__(cls, keep_graph: bool = False) -> Self:
        """A graph that is still to be captured."""
        made = super().__new__(cls)
        made._keeps_graph = keep_graph
        made._stream = made._capture = 0
        made._graph = ctypes.c_void_p()
        made._executable = ctypes.c_void_p()
        made._pool = pool_handle()
        return made

    def capture_begin(
        self, pool: tuple[int, int] | None = None, capture_error_mode: str = "global"
    ) -> None:
        """Start to capture the current stream."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(f"Unknown capture error mode: {capture_error_mode}")
        if self._graph or self._executable:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph.")
        stream = current_handle()
        if not stream:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. "
                "(However, after capture, it's ok to replay them on the default stream.)"
            )
        if pool is not None:
            self._pool = pool
        torch.ops.asmevo_device.begin_capture()
        mode = _MODES[capture_error_mode]
        error = hip.status("hipStreamBeginCapture", ctypes.c_void_p(stream), mode)
        if error:
            torch.ops.asmevo_device.release_capture(torch.ops.asmevo_device.end_capture())
            hip.check("hipStreamBeginCapture", error)
        self._stream = stream

    def capture_end(self) -> None:
        """End the capture and make the graph ready to run."""
        if not self._stream:
            raise RuntimeError("capture_end was called before capture_begin")
        stream, self._stream = self._stream, 0
        self._capture = torch.ops.asmevo_device.end_capture()
        hip.call("hipStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(self._graph))
        if not self._keeps_graph:
            self.instantiate()
            self._destroy("hipGraphDestroy", self._graph)

    def instantiate(self) -> None:
        """Make an executable graph."""
        if not self._graph:
            raise RuntimeError("capture_end must have been called before instantiate")
        self._destroy("hipGraphExecDestroy", self._executable)
        hip.call("hipGraphInstantiate", ctypes.byref(self._executable), self._graph, None, None, 0)

    def replay(self) -> None:
        """Run the captured work on the current stream."""
        if not self._executable and self._keeps_graph:
            self.instantiate()
        if not self._executable:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        hip.call("hipGraphLaunch", self._executable, ctypes.c_void_p(current_handle()))
        error = torch.ops.asmevo_device.take_replay_error()
        if error:
            raise RuntimeError(f"an operation of the CUDA graph failed: {error}")

    def reset(self) -> None:
        """Forget what was captured."""
        self._destroy("hipGraphExecDestroy", self._executable)
        self._destroy("hipGraphDestroy", self._graph)
        if self._capture:
            torch.ops.asmevo_device.release_capture(self._capture)
            self._capture = 0

    def __del__(self) -> None:
        """Give the memory of the captured work back."""
        if not sys.is_finalizing():
            self.reset()

    def pool(self) -> tuple[int, int]:
        """The name of the graph's pool."""
        return self._pool

    def raw_cuda_graph(self) -> int:
        """The hipGraph_t."""
        if not self._graph:
            raise RuntimeError("raw_cuda_graph needs keep_graph=True and an ended capture")
        return self._graph.value or 0

    def raw_cuda_graph_exec(self) -> int:
        """The hipGraphExec_t."""
        if not self._executable:
            raise RuntimeError("raw_cuda_graph_exec needs an instantiated graph")
        return self._executable.value or 0

    def register_generator_state(self, generator: Any) -> None:
        """A generator draws on at each replay without being told: nothing to do."""

    def enable_debug_mode(self) -> None:
        """Not covered."""
        raise NotCoveredError("torch.cuda.CUDAGraph.enable_debug_mode")

    def debug_dump(self, debug_path: str) -> None:
        """Not covered."""
        raise NotCoveredError("torch.cuda.CUDAGraph.debug_dump")

    @staticmethod
    def get_currently_capturing_graph() -> Any:
        """Not covered."""
        raise NotCoveredError("torch.cuda.CUDAGraph.get_currently_capturing_graph")

    def begin_capture_to_if_node(self, scalar_cuda_pred_tensor: Any) -> None:
        """Not covered."""
        raise NotCoveredError("torch.cuda.CUDAGraph.begin_capture_to_if_node")

    def end_capture_to_conditional_node(self) -> None:
        """Not covered."""
        raise NotCoveredError("torch.cuda.CUDAGraph.end_capture_to_conditional_node")

    @staticmethod
    def _destroy(function: str, handle: ctypes.c_void_p) -> None:
        if handle:
            hip.call(function, handle)
            handle.value = None


BINDINGS = {
    "_CUDAGraph": GraphBase,
    "_cuda_isCurrentStreamCapturing": is_capturing,
    "_graph_pool_handle": pool_handle,
    # No page-locked memory is cached.
    "_host_emptyCache": lambda: None,
}
