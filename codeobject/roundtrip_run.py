"""Round trips of many code objects in worker processes, with running totals."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from asmevo.codeobject.code_object import content_hash
from asmevo.codeobject.containers import FoundObject, find_code_objects
from asmevo.codeobject.roundtrip import (
    CHECKED_TARGETS,
    RoundTrip,
    check,
    limit_process,
    target_of,
)
from asmevo.errors import CodeObjectError, UsageError

__all__ = ["Observer", "Totals", "run", "usable_cores"]

# Objects in memory for each worker: the one that it works on and the next.
_IN_FLIGHT: Final = 2


class Observer(Protocol):
    """Learns of every object as soon as it is done."""

    def done(self, result: RoundTrip) -> None:
        """One object, or one file that could not be taken apart."""

    def file_read(self, count: int) -> None:
        """All objects of `count` files were handed to the workers."""


@dataclass(slots=True, kw_only=True)
class Totals:
    """Running sums over the results."""

    files: int = 0
    objects: int = 0
    exact: int = 0
    same_image: int = 0
    instructions: int = 0
    kept_as_bytes: int = 0
    zero_words: int = 0
    descriptors: int = 0
    raw_descriptors: int = 0
    raw_notes: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    """By class of difference; a file that cannot be taken apart counts as `container`."""
    targets: Counter[str] = field(default_factory=Counter)
    taken_over: int = 0
    """Objects with the contents of one that was found exact before."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Objects for processors that asmevo does not serve."""

    def add(self, result: RoundTrip) -> None:
        """Count one result."""
        if result.trouble:
            self.troubles[result.trouble] += 1
        if result.trouble == "container":
            return
        self.objects += 1
        self.targets[result.target] += 1
        self.exact += result.is_exact
        self.same_image += result.has_same_image
        self.instructions += result.instructions
        self.kept_as_bytes += result.kept_as_bytes
        self.zero_words += result.zero_words
        self.descriptors += result.kernels
        self.raw_descriptors += result.raw_descriptors
        self.raw_notes += result.has_raw_metadata

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and maps."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Counter) else value


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def run(
    files: Sequence[Path],
    observer: Observer,
    *,
    jobs: int,
    checker: Callable[[FoundObject], RoundTrip] = check,
    known: Iterable[RoundTrip] = (),
) -> Totals:
    """Check every code object of `files` in `jobs` processes.

    Of objects with the same contents one is checked, none that a result in `known` calls exact.
    `checker` must be importable by a worker.

    Raises:
        MissingToolError: There is no LLVM that serves an object.
    """
    totals = Totals()
    exact = {one.sha256: one for one in known if one.is_exact and one.sha256}

    def take(results: list[RoundTrip]) -> None:
        for result in results:
            totals.add(result)
            if result.is_exact and result.sha256:
                exact.setdefault(result.sha256, result)
            observer.done(result)

    with _crew(jobs, checker) as crew:
        for path in files:
            for found in _objects_of(path):
                if isinstance(found, RoundTrip):
                    take([found])
                elif name := _foreign_target(found):
                    totals.skipped[name] += 1
                elif same := exact.get(content_hash(found.data)):
                    totals.taken_over += 1
                    take([replace(same, path=str(found.path), place=found.place, seconds=0.0)])
                else:
                    while crew.is_full:
                        take(crew.collect())
                    crew.submit(found)
            totals.files += 1
            observer.file_read(totals.files)
        while crew.is_busy:
            take(crew.collect())
    return totals


def _objects_of(path: Path) -> Iterator[FoundObject | RoundTrip]:
    """The objects of a file; the last may be what ended the search."""
    try:
        yield from find_code_objects(path)
    except (CodeObjectError, UsageError, OSError, MemoryError) as error:
        detail = " ".join(str(error).split()).removeprefix(f"{path}: ")
        yield _failure(str(path), "container", detail or type(error).__name__)


def _foreign_target(found: FoundObject) -> str:
    """Processor of an object that asmevo does not serve; empty for those that it checks."""
    target = target_of(found.data)
    if target in CHECKED_TARGETS:
        return ""
    if target != "unknown":
        return target
    # A bundle names processors that are newer than our table; anything else is to be refused.
    named = re.search(r"--(gfx[0-9a-f]{3,4})\b", found.place)
    return named[1] if named else ""


def _failure(path: str, trouble: str, detail: str, *, place: str = "") -> RoundTrip:
    return RoundTrip(path=path, place=place, target="", trouble=trouble, details=(detail[:400],))


def _work(checker: Callable[[FoundObject], RoundTrip], found: FoundObject) -> RoundTrip:
    try:
        return checker(found)
    except SystemExit:
        # The parent ended us. An executor's worker would take that for a result and go on with the
        # next object.
        os._exit(128 + signal.SIGTERM)


class _Crew:
    """Worker processes and what they work on. A worker that dies costs one object."""

    def __init__(self, jobs: int, checker: Callable[[FoundObject], RoundTrip]) -> None:
        self._jobs = jobs
        self._checker = checker
        self._pool = self._start(jobs)
        self._waiting: dict[Future[RoundTrip], FoundObject] = {}
        self._suspects: list[FoundObject] = []

    @property
    def is_full(self) -> bool:
        return len(self._waiting) + len(self._suspects) >= _IN_FLIGHT * self._jobs

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._suspects)

    def submit(self, found: FoundObject) -> None:
        try:
            self._waiting[self._pool.submit(_work, self._checker, found)] = found
        except BrokenProcessPool:
            self._suspects.append(found)

    def collect(self) -> list[RoundTrip]:
        """Results that are there, at least one."""
        results: list[RoundTrip] = []
        done = wait(self._waiting, return_when=FIRST_COMPLETED).done if self._waiting else ()
        for future in done:
            found = self._waiting.pop(future)
            try:
                results.append(future.result())
            except BrokenProcessPool:
                self._suspects.append(found)
        if self._suspects:
            results += self._judge_suspects()
        return results

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _start(self, jobs: int) -> ProcessPoolExecutor:
        # Spawned, since a fork would copy the threads of a progress bar in an unknown state.
        return ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("spawn"), initializer=limit_process
        )

    def _judge_suspects(self) -> list[RoundTrip]:
        """A broken pool does not say whose object killed its worker: try each one alone."""
        suspects = [*self._suspects, *self._waiting.values()]
        self._suspects.clear()
        self._waiting.clear()
        self.close()
        results = []
        for found in suspects:
            with self._start(1) as pool:
                try:
                    results.append(pool.submit(_work, self._checker, found).result())
                except BrokenProcessPool:
                    detail = "the process that checked it died"
                    results.append(_failure(str(found.path), "failed", detail, place=found.place))
        self._pool = self._start(self._jobs)
        return results


@contextmanager
def _crew(jobs: int, checker: Callable[[FoundObject], RoundTrip]) -> Iterator[_Crew]:
    """A crew whose processes are ended when the block is left by an exception."""
    before = set(multiprocessing.active_children())
    crew = _Crew(jobs, checker)
    try:
        yield crew
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        crew.close()
