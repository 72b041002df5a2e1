"""ROCm's other libraries: there to be linked with, refusing by name."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from asmevo import native
from asmevo.replay.device import Device

STUBS = native.emulator_folder() / "stubs"
LIBRARIES = {
    "libhipblas.so.2": ("hipblasSgemm", 7),
    "libhipblas.so.3": ("hipblasGemmEx_64", 7),
    "libhipblaslt.so.1": ("hipblasLtMatmul", 7),
    "librocblas.so.5": ("rocblas_sgemm", 2),
    "librocsolver.so.0": ("rocsolver_sgetrf", 2),
    "librocsparse.so.1": ("rocsparse_spmv", 2),
    "libhipsparse.so.4": ("hipsparseSpMM", 10),
    "libhipsolver.so.1": ("hipsolverSgetrf", 7),
    "libhiprand.so.1": ("hiprandCreateGenerator", 1000),
    "librocrand.so.1": ("rocrand_create_generator", 107),
    "libhipfft.so.0": ("hipfftPlan1d", 16),
    "librocfft.so.0": ("rocfft_setup", 1),
    "librccl.so.1": ("ncclAllReduce", 3),
    "libMIOpen.so.1": ("miopenCreate", 6),
    "libhsa-runtime64.so.1": ("hsa_init", 0x1000),
    "libhiprtc.so.7": ("hiprtcCompileProgram", 11),
}
CODE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
function = getattr(library, sys.argv[2])
print(function(), function(), hasattr(library, "hipMalloc"))
"""


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_loads_and_its_functions_refuse_by_name(name: str) -> None:
    function, status = LIBRARIES[name]

    done = subprocess.run(
        [sys.executable, "-c", CODE, name, function],
        env=Device.emulated().environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    # The HIP runtime comes with every one of them; the line is printed once.
    assert done.stdout == f"{status} {status} True\n"
    library = name.removeprefix("lib").partition(".")[0]
    line = f"asmevo emulated device: {function}: the device has no {library}; "
    assert done.stderr == f"{line}only programs that do without it run\n"


def test_function_that_gives_a_text_gives_one() -> None:
    library = ctypes.CDLL(str(STUBS / "librccl.so"))
    library.ncclGetErrorString.restype = ctypes.c_char_p
    assert library.ncclGetErrorString(3) == b"not available on the emulated device"


def test_markers_nest_and_do_nothing_else() -> None:
    library = ctypes.CDLL(str(STUBS / "libroctx64.so.4"))
    assert [library.roctxRangePushA(b"a"), library.roctxRangePushA(b"b")] == [0, 1]
    assert [library.roctxRangePop(), library.roctxRangePop(), library.roctxRangePop()] == [1, 0, -1]
