"""The emulate command: run any HIP program on the emulated device."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.commands.options import printable
from asmevo.errors import UsageError

if TYPE_CHECKING:
    from asmevo.replay.strict import KernelReport

__all__ = ["register"]

# Bump when a field of the JSON changes its name or meaning, or goes away.
_SCHEMA_VERSION = 1


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
    fast_mfma: Annotated[
        bool,
        typer.Option(
            "--fast-mfma",
            help="Matrix operations as plain multiply-adds: faster, not what hardware computes",
        ),
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
    autotune: Annotated[
        bool,
        typer.Option(
            "--autotune",
            help="Let Triton's autotuners time their configurations, by the host's clock "
            "[default: they take the first that runs]",
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Make all run-time checks and report what they find"),
    ] = False,
    checks: Annotated[
        str,
        typer.Option(
            help="With --strict: all, or of waits,hazards,races,undefined,barriers,alignment"
        ),
    ] = "all",
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --strict: write findings as one JSON object"),
    ] = None,
) -> None:
    """Run a HIP program on the emulated device

    The program finds the device's libamdhip64.so before any other. In a Python program, torch's
    CPU build gets CUDA tensors on the device. The program's exit code is passed on. Times that it
    measures are the host's, not a GPU's.

    With --strict, what its kernels do that works by luck on a GPU is listed on stderr when it has
    ended, and the exit code is 1 where there is something and the program itself ended with 0.

    asmevo emulate --chip mi355x --threads 2 -- ./a.out

    asmevo emulate --strict -- python train.py
    """
    from asmevo.child import become
    from asmevo.replay.device import Device

    if strict and fast_mfma:
        raise UsageError("--strict judges exact results: leave out --fast-mfma")
    device = Device.emulated(
        chip=chip, arch=arch, discrete=discrete, threads=threads, fast_mfma=fast_mfma
    )
    environment = device.environment(torch=True)
    if skip_benchmarks:
        environment["ASMEVO_SKIP_BENCHMARKS"] = "1"
    environment["ASMEVO_AUTOTUNE"] = "1" if autotune else "0"
    if strict:
        raise typer.Exit(_run_strict(command, environment, checks, report))
    if report is not None or checks != "all":
        raise UsageError("--checks and --report belong to --strict")
    become(command, environment)


def _run_strict(
    command: list[str], environment: dict[str, str], checks: str, report: Path | None
) -> int:
    """Run the program, print what was found; the exit code."""
    from asmevo.child import run_to_end
    from asmevo.files import write_whole
    from asmevo.replay.findings import validate_checks
    from asmevo.replay.strict import read_reports, strict_environment

    try:
        validate_checks(checks)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with tempfile.TemporaryDirectory(prefix="asmevo-strict-") as folder:
        file = Path(folder) / "reports.jsonl"
        code = run_to_end(command, environment | strict_environment(checks, file))
        kernels = read_reports(file)
    _print_kernels(kernels)
    if report is not None:
        record = {
            "schema_version": _SCHEMA_VERSION,
            "checks": checks,
            "exit_code": code,
            "kernels": [kernel.to_json() for kernel in kernels],
        }
        write_whole(report, json.dumps(record, indent=1).encode())
    return code or int(any(not kernel.is_clean for kernel in kernels))


def _print_kernels(kernels: tuple[KernelReport, ...]) -> None:
    from asmevo.replay.findings_text import describe_counts, format_findings

    for kernel in kernels:
        if kernel.is_clean:
            continue
        counts = describe_counts(kernel.findings)
        typer.echo(printable(f"{kernel.kernel}: {counts}"), err=True)
        for line in format_findings(kernel.findings):
            typer.echo(f"  {printable(line)}", err=True)
        for failure in kernel.failures:
            for line in failure.splitlines():
                typer.echo(f"  {printable(line)}", err=True)
    found = sum(not kernel.is_clean for kernel in kernels)
    noun = "kernel" if len(kernels) == 1 else "kernels"
    typer.echo(f"asmevo: checked {len(kernels)} {noun}, {found} with findings", err=True)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("emulate", no_args_is_help=True)(_emulate)
