"""The roundtrip command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from asmevo.commands.options import AsJson, Force, print_json, printable
from asmevo.errors import UsageError

if TYPE_CHECKING:
    from rich.progress import Progress

    from asmevo.codeobject.roundtrip import RoundTrip
    from asmevo.codeobject.roundtrip_run import Totals

__all__ = ["register"]

_MAX_FAILURES_IN_JSON = 10_000


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("roundtrip", no_args_is_help=True)(roundtrip_command)


def roundtrip_command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Code objects, offload bundles, host libraries, or folders"
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write a JSON line for every object, as it is done"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, max=256, help="Processes; by default one a core"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the results in -o: what is exact there stays"),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Recover and rebuild code objects and compare them with the originals

    Each object is recovered, written as assembly, assembled, linked and compared. Folders are
    searched through; bundles may be compressed. Objects for other processors than gfx90a, gfx942
    and gfx950 are counted and left alone. Exit code 1 when any object or file is not given back.
    A run that was ended goes on with --resume.

    asmevo roundtrip kernel.hsaco libbitsandbytes_rocm72.so

    asmevo roundtrip ~/.triton/cache -o results.jsonl --json
    """
    from asmevo.codeobject.containers import find_files
    from asmevo.codeobject.roundtrip_run import run, usable_cores

    if resume and not output:
        raise UsageError("--resume goes on with the results of -o, which is missing")
    if output and output.exists() and not (force or resume):
        raise UsageError(f"{output} exists", hint="overwrite it with --force, or --resume")
    files = find_files(paths)
    start = time.monotonic()
    known = _read_results(output) if output and resume else []
    with ExitStack() as stack:
        lines = _open_results(output, stack, append=resume)
        report = stack.enter_context(_Report(len(files), lines, known, is_quiet=as_json))
        totals = run(files, report, jobs=jobs or usable_cores(), known=known)
    seconds = time.monotonic() - start
    if not totals.objects and not totals.troubles:
        found = ", ".join(totals.skipped) or "none"
        raise UsageError(f"no code object for gfx90a, gfx942 or gfx950 (found: {found})")
    if as_json:
        facts = totals.to_json() | {"seconds": round(seconds, 1), "failures": report.failures}
        print_json(facts)
    else:
        _print_summary(totals, seconds)
        if output:
            print(f"Wrote {output}")
    if totals.troubles:
        raise typer.Exit(1)


def _open_results(output: Path | None, stack: ExitStack, *, append: bool) -> IO[str] | None:
    if output is None:
        return None
    try:
        return stack.enter_context(output.open("a" if append else "w", encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror or error}") from error


def _read_results(output: Path) -> list[RoundTrip]:
    """Results of an earlier run; what was cut when it ended is dropped from the file."""
    from asmevo.codeobject.roundtrip import RoundTrip

    if not output.exists():
        return []
    results = []
    try:
        with output.open("r+b") as file:
            for line in iter(file.readline, b""):
                if not line.endswith(b"\n"):
                    file.truncate(file.tell() - len(line))
                    break
                results.append(RoundTrip.from_json(json.loads(line)))
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"{output} does not hold results of this version", hint="start anew with --force"
        ) from error
    return results


class _Report:
    """Prints what fails as it fails, writes all results, and moves the progress bar."""

    def __init__(
        self,
        files: int,
        lines: IO[str] | None,
        written: Iterable[RoundTrip],
        *,
        is_quiet: bool,
    ) -> None:
        self.failures: list[dict[str, Any]] = []
        self._written = {(one.path, one.place, one.sha256) for one in written if one.is_exact}
        self._files = files
        self._lines = lines
        self._is_quiet = is_quiet
        self._objects = 0
        self._failed = 0
        self._progress: Progress | None = None

    def __enter__(self) -> _Report:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        console = Console(stderr=True)
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                Elapsed(),
            )
            # What fails goes to stdout, also when that is a file.
            self._progress = Progress(
                *columns,
                console=console,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
            )
            self._progress.add_task("files", total=self._files)
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def done(self, result: RoundTrip) -> None:
        """Show and write one result."""
        self._objects += 1
        key = (result.path, result.place, result.sha256)
        if self._lines is not None and key not in self._written:
            self._lines.write(json.dumps(result.to_json()) + "\n")
            self._lines.flush()
        if not result.is_exact:
            self._failed += 1
            if len(self.failures) < _MAX_FAILURES_IN_JSON:
                self.failures.append(result.to_json())
            if not self._is_quiet:
                print(printable(result.line), flush=True)
        if self._progress is not None:
            shown = f"{self._objects} objects, {self._failed} not given back; files"
            self._progress.update(self._progress.task_ids[0], description=shown)

    def file_read(self, count: int) -> None:
        """Move the bar."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=count)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _print_summary(totals: Totals, seconds: float) -> None:
    targets = ", ".join(f"{count} {name}" for name, count in sorted(totals.targets.items()))
    print(
        f"{_counted(totals.objects, 'object')} in {_counted(totals.files, 'file')} "
        f"({targets or 'none'}): "
        f"{totals.exact:,} exact, {totals.same_image:,} of them with an identical loaded image"
    )
    print(
        f"kept as bytes: {totals.kept_as_bytes:,} of {totals.instructions:,} instructions "
        f"({totals.zero_words:,} of them zero padding), "
        f"{totals.raw_descriptors:,} of {totals.descriptors:,} descriptors, "
        f"{totals.raw_notes:,} of {totals.objects:,} metadata notes"
    )
    if totals.taken_over:
        print(f"checked before, of the same contents: {_counted(totals.taken_over, 'object')}")
    if totals.skipped:
        skipped = ", ".join(f"{count} {name}" for name, count in sorted(totals.skipped.items()))
        print(printable(f"left alone, for other processors: {skipped}"))
    if totals.troubles:
        troubles = ", ".join(f"{count} {name}" for name, count in totals.troubles.most_common())
        print(f"not given back: {troubles}")
    rate = f", {totals.objects / seconds:.1f} objects/s" if totals.objects and seconds > 0 else ""
    print(f"{seconds:.1f} s{rate}")
