"""Captures of several processes at one time: a server's workers."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from asmevo.capture.attach import AttachedTarget
from asmevo.capture.collector import Collector, Observer
from asmevo.capture.listing import count_launches, heaviest
from asmevo.capture.outcome import Captured, CaptureOptions, CaptureResult, GraphUse
from asmevo.capture.touched import Helpers
from asmevo.errors import AsmevoError

__all__ = ["Crew", "Opener", "choose_heaviest"]

_log = logging.getLogger(__name__)

_NEWCOMERS_S = 2.0  # with everything captured, how long to wait for further processes

Opener = Callable[[], AbstractContextManager[AttachedTarget]]


def choose_heaviest(target: AttachedTarget, options: CaptureOptions) -> CaptureOptions:
    """With `top`: count launches for a while and want the heaviest kernels only."""
    if not options.top:
        return options
    usage = count_launches(target, options.watch_s)
    globs = heaviest(usage, options.top, options.globs)
    target.forget_functions()
    return replace(options, globs=globs or options.globs, top=0)


class Crew:
    """One thread a process; each captures on its own, until all have what they want."""

    def __init__(
        self, options: CaptureOptions, observer: Observer, helpers: Helpers | None = None
    ) -> None:
        """Nobody is captured yet."""
        self._helpers = helpers or Helpers()
        self._options = options
        self._observer = _Locked(observer)
        self._lock = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}
        self._collectors: dict[int, Collector] = {}
        self._results: dict[int, CaptureResult] = {}
        self._failures: dict[int, str] = {}
        self._deadline = time.monotonic() + options.timeout_s
        self._last_news = time.monotonic()
        self._is_stopped = False

    @property
    def is_over(self) -> bool:
        """The time is over, or all processes have what is wanted and no new ones come."""
        now = time.monotonic()
        if now > self._deadline or self._is_stopped:
            return True
        with self._lock:
            collectors = list(self._collectors.values())
            is_busy = any(pid not in self._results for pid in self._threads)
        if self._options.stays or not collectors:
            return False
        missing = set.intersection(*(set(one.unmatched()) for one in collectors))
        is_settled = not missing and all(one.is_settled for one in collectors)
        if not is_settled and is_busy:
            self._last_news = now
        return now - self._last_news > _NEWCOMERS_S and (is_settled or not is_busy)

    def knows(self, pid: int) -> bool:
        """Whether the process was taken on before."""
        with self._lock:
            return pid in self._threads

    def take(self, pid: int, opener: Opener) -> None:
        """Capture one more process."""
        thread = threading.Thread(target=self._work, args=(pid, opener), name=f"capture-{pid}")
        with self._lock:
            self._threads[pid] = thread
            self._last_news = time.monotonic()
        thread.start()

    def finish(self) -> CaptureResult:
        """End all captures, leave the processes, and say what came of it."""
        with self._lock:
            self._is_stopped = True
            collectors, threads = list(self._collectors.values()), list(self._threads.values())
        for collector in collectors:
            collector.stop()
        for thread in threads:
            thread.join()
        for pid, reason in self._failures.items():
            _log.warning("process %d: %s", pid, reason)
        return _merge(tuple(self._results.values()), tuple(self._failures.items()), self._options)

    def _work(self, pid: int, opener: Opener) -> None:
        try:
            with opener() as target:
                options = replace(
                    choose_heaviest(target, self._options),
                    timeout_s=max(self._deadline - time.monotonic(), 0.0),
                )
                collector = Collector(target, options, self._observer, self._helpers)
                with self._lock:
                    self._collectors[pid] = collector
                    if self._is_stopped:
                        collector.stop()
                result = collector.run()
                with self._lock:
                    self._results[pid] = result
        except AsmevoError as error:
            with self._lock:
                self._failures[pid] = str(error)
                self._collectors.pop(pid, None)
                self._results.setdefault(pid, _NOTHING)


_NOTHING = CaptureResult(captured=(), refused=(), unmatched=(), incomplete=(), seen=())


def _merge(
    results: tuple[CaptureResult, ...],
    failures: tuple[tuple[int, str], ...],
    options: CaptureOptions,
) -> CaptureResult:
    real = [one for one in results if one is not _NOTHING]
    missing = [set(one.unmatched) for one in real] or [set(options.globs)]
    graphs = [one.graphs for one in real]
    return CaptureResult(
        captured=tuple(item for one in real for item in one.captured),
        refused=(
            *(item for one in real for item in one.refused),
            *((f"process {pid}", reason) for pid, reason in failures),
        ),
        unmatched=tuple(sorted(set.intersection(*missing))),
        incomplete=tuple(item for one in real for item in one.incomplete),
        seen=tuple(dict.fromkeys(name for one in real for name in one.seen)),
        graphs=GraphUse(
            launches=sum(one.launches for one in graphs),
            unknown=sum(one.unknown for one in graphs),
            kernels=tuple(item for one in graphs for item in one.kernels),
        ),
    )


class _Locked:
    """An observer that is told one thing at a time."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._lock = threading.Lock()

    def captured(self, captured: Captured) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._observer.captured(captured)

    def refused(self, kernel: str, reason: str) -> None:
        with self._lock, contextlib.suppress(ValueError):
            self._observer.refused(kernel, reason)
