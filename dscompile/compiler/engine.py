"""The engine: runs the tasks of a plan on an executor, in bounded memory, with results in row order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import secrets
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from dscompile.compiler.reading import Work, batched
from dscompile.compiler.rows import Report
from dscompile.errors import BuildError, OpaqueError

PR_SET_PDEATHSIG = 1
STOPPING = (signal.SIGINT, signal.SIGTERM)
Task = Callable[[Work, str, range], Report]
Progress = Callable[[str, int, int], None]
# Works of this process by token; forked workers inherit the table, so nothing is pickled for them.
_WORKS: dict[str, Work] = {}


def available_cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class Engine:
    """Runs tasks over the blocks of splits.

    Args:
        workers: Number of workers; None for the cores this process may use.
        executor: A foreign executor to use instead; its processes must see the staging folder.
        progress: Called with (split, rows done, rows in all) after each block.
    """

    def __init__(
        self, workers: int | None = None, executor: Executor | None = None, progress: Progress | None = None
    ) -> None:
        self.workers = workers or available_cores()
        self._executor, self._progress = executor, progress

    def run(self, task: Task, work: Work, splits: Iterable[str]) -> dict[str, list[Report]]:
        """Run a task over every block of the splits and return the reports in row order.

        The first bad sample, by position, decides the error; nothing is started after it.

        Raises:
            DscompileError: What the task raised.
            BuildError: A worker died.
        """
        with self._token(work) as token, self._pool(work) as pool:
            return {split: self._split(pool, task, token, work, split) for split in splits}

    def _split(self, pool: Executor, task: Task, token: str, work: Work, split: str) -> list[Report]:
        waiting = iter(work.plan.blocks(split))
        running: dict[Future[Report], range] = {}
        done: list[Report] = []
        failed: dict[int, BaseException] = {}
        rows_done = 0
        while True:
            while (
                not failed and len(running) < 2 * self.workers and (rows := next(waiting, None)) is not None
            ):
                try:
                    running[pool.submit(_run, os.getpid(), task, token, split, rows)] = rows
                except BrokenProcessPool as broken:
                    failed[rows.start] = broken
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                rows = running.pop(future)
                error = future.exception()
                if error is not None:
                    failed[rows.start] = error
                    continue
                done.append(future.result())
                rows_done += len(rows)
                if self._progress is not None:
                    self._progress(split, rows_done, work.plan.samples[split])
        if failed:
            raise _explained(failed[min(failed)], split, min(failed))
        return sorted(done, key=lambda report: report.rows.start)

    @contextmanager
    def _pool(self, work: Work) -> Iterator[Executor]:
        if self._executor is not None:
            yield self._executor
        else:
            with local_executor(work, self.workers) as pool:
                _start(pool)
                yield pool

    @contextmanager
    def _token(self, work: Work) -> Iterator[str]:
        """Lend a name by which tasks find the work, in this process, in forks of it, or through a file."""
        # A name of its own for each run: workers keep the work of a token, and a build runs several.
        file = work.folder / f"work-{secrets.token_hex(4)}.pickle"
        _WORKS[str(file)] = work
        shared = isinstance(self._executor, ThreadPoolExecutor) or (self._executor is None and _can_fork())
        if not shared:
            _save(work, file)
        try:
            yield str(file)
        finally:
            del _WORKS[str(file)]
            file.unlink(missing_ok=True)


def local_executor(work: Work, workers: int) -> Executor:
    """Return threads for array rows (numpy leaves the interpreter), processes for single samples."""
    arrays = all(batched(work.data(split), work.options) for split in work.plan.samples)
    if arrays or workers == 1:
        return ThreadPoolExecutor(workers)
    method = "fork" if _can_fork() else "spawn"
    return ProcessPoolExecutor(workers, multiprocessing.get_context(method), _start_worker)


def _start(pool: Executor) -> None:
    """Start all workers now, with the signals that stop a build held back.

    A handler that raises while Python runs its callbacks around a fork is ignored, and the build would go on.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        pool.submit(int).result()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _can_fork() -> bool:
    return "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, end with it, and keep torch to one thread as its DataLoader does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    _end_with_parent()
    _keep_to_one_thread()


def _end_with_parent() -> None:
    """Let the kernel kill this worker when its parent dies, however it dies (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _keep_to_one_thread() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _run(owner: int, task: Task, token: str, split: str, rows: range) -> Report:
    if owner != os.getpid():
        # A foreign executor's process: one that was forked would wait for threads that it does not have.
        _keep_to_one_thread()
    return task(_WORKS.get(token) or _load(token), split, rows)


@lru_cache(maxsize=1)
def _load(token: str) -> Work:
    work = pickle.loads(Path(token).read_bytes())
    assert isinstance(work, Work)
    return work


def _save(work: Work, file: Path) -> None:
    try:
        file.write_bytes(pickle.dumps(work))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise OpaqueError(
            "source", "a dataset that pickles, for workers of another process", str(error), "Use workers=1."
        ) from error


def _explained(error: BaseException, split: str, first: int) -> BaseException:
    if isinstance(error, BrokenProcessPool):
        return BuildError(
            f"split {split!r}, rows from {first}",
            "workers that live",
            "a worker that ended abruptly (killed, out of memory, or crashed in a decoder)",
            "Try fewer --workers; with --workers 1 the sample at fault shows.",
        )
    return error
