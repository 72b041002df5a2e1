"""The emulate command: run any HIP program on the emulated device."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["register"]


def _emulate(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- CMD…", help="The program and its arguments"),
    ],
    *,
    arch: Annotated[
        str | None,
        typer.Option(help="Architecture: gfx90a, gfx942 or gfx950 [default: gfx942]"),
    ] = None,
    chip: Annotated[
        str | None,
        typer.Option(help="Product, such as mi300x [default: the usual one of the architecture]"),
    ] = None,
    discrete: Annotated[
        bool,
        typer.Option("--discrete", help="Keep pageable host memory out of the device's reach"),
    ] = False,
    threads: Annotated[
        int, typer.Option(min=0, max=1024, help="Host threads that execute waves; 0: all cores")
    ] = 0,
    skip_benchmarks: Annotated[
        bool,
        typer.Option(
            "--skip-benchmarks", help="Leave out what triton.testing.perf_report measures"
        ),
    ] = False,
) -> None:
    """Run a HIP program on the emulated device

    The program finds the device's libamdhip64.so before any other. In a Python program, torch's
    CPU build gets CUDA tensors on the device. The program's exit code is passed on. Times that it
    measures are the host's, not a GPU's.

    asmevo emulate -- python train.py

    asmevo emulate --chip mi355x --threads 2 -- ./a.out
    """
    from asmevo.child import become
    from asmevo.replay.device import Device

    device = Device.emulated(chip=chip, arch=arch, discrete=discrete, threads=threads)
    environment = device.environment(torch=True)
    if skip_benchmarks:
        environment["ASMEVO_SKIP_BENCHMARKS"] = "1"
    become(command, environment)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("emulate", no_args_is_help=True)(_emulate)
