"""The demo server: HTTP requests answered by Triton kernels compiled for gfx942.

Run on the emulated device: `asmevo emulate -- python serve.py --port 0`. It prints one line of JSON
with its port and pid.

    GET  /health           {"ok": true, "pid": …}
    POST /run/KERNEL       {"seed": 1, "rows": 32, …}
        → {"outputs": {NAME: {"shape": …, "dtype": …, "sha256": …, "values": […]}}}
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from server_cache import cache_folder

# Read by Triton when it is imported.
os.environ.setdefault("TRITON_CACHE_DIR", str(cache_folder("triton")))
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import kernels
import torch
import triton_device
import vllm_source
from device_tensors import DeviceFactories, to_device
from workloads import EPSILON, SOFTMAX_SCALE, WORKLOADS, Tensors

__all__ = ["main"]

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
_BODY_LIMIT = 1 << 16


def _run_softmax(inputs: Tensors) -> Tensors:
    return {"out": kernels.softmax(inputs["scores"], SOFTMAX_SCALE)}


def _run_rms_norm(inputs: Tensors) -> Tensors:
    out = kernels.add_rms_norm(inputs["x"], inputs["residual"], inputs["weight"], EPSILON)
    return {"out": out, "residual": inputs["residual"]}


def _run_matmul(inputs: Tensors) -> Tensors:
    return {"out": kernels.matmul(inputs["a"], inputs["b"])}


def _run_merge_attn_states(inputs: Tensors) -> Tensors:
    module = vllm_source.import_module("vllm.v1.attention.ops.triton_merge_attn_states")
    out = torch.empty_like(inputs["prefix_output"])
    lse = torch.empty_like(inputs["prefix_lse"])
    module.merge_attn_states(output=out, output_lse=lse, **inputs)
    return {"out": out, "lse": lse}


_RUNNERS: Mapping[str, Callable[[Tensors], Tensors]] = {
    "softmax": _run_softmax,
    "rms_norm": _run_rms_norm,
    "matmul": _run_matmul,
    "merge_attn_states": _run_merge_attn_states,
}
# Each request has a thread; Triton's first launch of a kernel (compile, load) expects to be alone.
_device_lock = threading.Lock()


def _describe(tensor: torch.Tensor) -> dict[str, Any]:
    data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "sha256": hashlib.sha256(data).hexdigest(),
        "values": tensor.float().flatten().tolist(),
    }


def _answer(name: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run a kernel; ValueError and KeyError mean a bad request."""
    workload = WORKLOADS[name]
    seed = request.pop("seed", 0)
    if type(seed) is not int or not 0 <= seed < 1 << 63:
        raise ValueError("seed must be an integer that is not negative")
    inputs = workload.make_inputs(seed, request)
    with _device_lock, DeviceFactories():
        outputs = _RUNNERS[name]({key: to_device(tensor) for key, tensor in inputs.items()})
        return {
            "kernel": name,
            "outputs": {key: _describe(tensor) for key, tensor in outputs.items()},
        }


class _Handler(BaseHTTPRequestHandler):
    """Keeps connections open between requests, as clients of a server under load do."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer /health."""
        if self.path == "/health":
            self._send(200, {"ok": True, "pid": os.getpid(), "kernels": sorted(WORKLOADS)})
        else:
            self._send(404, {"error": f"no {self.path}"})

    def do_POST(self) -> None:
        """Answer /run/KERNEL."""
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 <= length <= _BODY_LIMIT:
                self.close_connection = True
                self._send(413, {"error": "the request is too long"})
                return
            request = json.loads(self.rfile.read(length) or b"{}")
            name = self.path.removeprefix("/run/")
            if name not in _RUNNERS or not isinstance(request, dict):
                self._send(404, {"error": f"no {self.path}"})
                return
            self._send(200, _answer(name, request))
        except ValueError as error:
            self._send(400, {"error": str(error)})
        except Exception as error:
            self._send(500, {"error": f"{type(error).__name__}: {error}"})

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: stdout and stderr belong to the test that started the server."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _allow_attaching() -> None:
    """Let any process of the user attach: ptrace_scope 1, Ubuntu's default, allows parents only."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    port: int = parser.parse_args().port
    _allow_attaching()
    torch.set_num_threads(1)
    triton_device.activate()
    server = _Server(("127.0.0.1", port), _Handler)

    def stop(signum: int, frame: object) -> None:
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(json.dumps({"port": server.server_address[1], "pid": os.getpid()}), flush=True)
    server.serve_forever(poll_interval=0.1)
    server.server_close()


if __name__ == "__main__":
    main()
