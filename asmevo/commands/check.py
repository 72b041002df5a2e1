"""The check command: what a captured kernel does that works by luck."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asmevo.commands.options import AsJson, LaunchTimeout, print_json, printable
from asmevo.errors import UsageError

if TYPE_CHECKING:
    from asmevo.replay.device import Device
    from asmevo.replay.records import ObjectResult

__all__ = ["register"]

# Bump when a field changes its name or meaning, or goes away.
_SCHEMA_VERSION = 1


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("check", no_args_is_help=True)(check)


def check(
    bundles: Annotated[list[Path], typer.Argument(metavar="BUNDLE…", help="Captured dispatches")],
    *,
    hsaco: Annotated[
        Path | None,
        typer.Option("--hsaco", metavar="FILE", help="Check this code object instead of K0"),
    ] = None,
    checks: Annotated[
        str,
        typer.Option(help="all, or of: waits,hazards,races,undefined,barriers,alignment"),
    ] = "all",
    chip: Annotated[
        str | None, typer.Option(help="Product, such as mi300x [default: the bundle's kind]")
    ] = None,
    timeout_s: LaunchTimeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """Find missing waits, hazards, races, bad accesses, undefined values

    Runs each dispatch on the emulated device, which is stricter than a GPU, and lists what its
    kernel does that the hardware does not promise to bear, with the instructions around it. Exit
    code 0 when there is nothing, 1 when something was found.

    asmevo check captures/*.aeb

    asmevo check captures/softmax-000.aeb --hsaco candidate.hsaco --checks waits,hazards
    """
    _validate(checks)
    found = False
    records: list[dict[str, Any]] = []
    for bundle in bundles:
        kernel, device, result = _run(bundle, hsaco, checks, chip, timeout_s)
        found = found or bool(result.findings) or not result.verdict.has_passed
        if as_json:
            records.append(_to_record(bundle, kernel, device, result))
        else:
            _print(bundle, kernel, device, result)
    if as_json:
        print_json({"schema_version": _SCHEMA_VERSION, "checks": checks, "bundles": records})
    if found:
        raise typer.Exit(1)


def _validate(checks: str) -> None:
    from asmevo.replay.findings import validate_checks

    try:
        validate_checks(checks)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _run(
    bundle: Path, hsaco: Path | None, checks: str, chip: str | None, timeout_s: float
) -> tuple[str, Device, ObjectResult]:
    from asmevo.capture.bundle import open_bundle
    from asmevo.replay.device import Device
    from asmevo.replay.engine import ReplaySession
    from asmevo.replay.options import OracleOptions

    with open_bundle(bundle) as opened:
        arch = opened.manifest.dispatch.arch.partition(":")[0]
    device = Device.emulated(chip=chip, arch=arch)
    # Memory and findings of the usual launch: what depends on luck is the replay command's matter.
    options = OracleOptions(checks=checks, seeds=(), second_state=False)
    with ReplaySession(bundle, device=device, timeout_s=timeout_s, options=options) as session:
        return session.kernel, device, session.k0 if hsaco is None else session.run(hsaco)


def _to_record(bundle: Path, kernel: str, device: Device, result: ObjectResult) -> dict[str, Any]:
    return {
        "bundle": str(bundle),
        "kernel": kernel,
        "device": str(device),
        "object": result.name,
        "verdict": {
            "status": result.verdict.status.value,
            "reasons": list(result.verdict.reasons),
        },
        "findings": [finding.to_json() for finding in result.findings],
    }


def _print(bundle: Path, kernel: str, device: Device, result: ObjectResult) -> None:
    from asmevo.replay.findings_text import describe_counts, format_findings
    from asmevo.verdict import Status

    counts = describe_counts(result.findings)
    typer.echo(printable(f"{bundle}: {kernel} ({result.name}) on {device}: {counts}"))
    for line in format_findings(result.findings):
        typer.echo(f"  {printable(line)}")
    if not result.verdict.has_passed and result.verdict.status is not Status.CHECK_FAILED:
        typer.echo(f"  {result.verdict.status.replace('_', ' ')}:")
        for reason in result.verdict.reasons:
            typer.echo(f"    {printable(reason)}")
