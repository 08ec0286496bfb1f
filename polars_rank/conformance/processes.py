"""Metrics in other processes: one request and one answer per line of JSON, each within a limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

from polars_rank.conformance.functions import (
    ANSWERS,
    Description,
    Late,
    Outcome,
    Signature,
    outcome,
    read_answer,
    read_value,
)
from polars_rank.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

#: Bytes of an answer; what follows is not read.
_LONGEST = 65_536
#: Seconds for the import of a module.
_IMPORT = 60.0
#: Seconds that a process has to end after its input is closed.
_GRACE = 1.0
#: Seconds between attempts to interrupt a function.
_AGAIN = 0.1


class Local:
    """A function in this process. Its calls are interrupted where Python can interrupt them."""

    def __init__(self, function: Callable[..., Any], timeout: float) -> None:
        self.function: Callable[..., Any] = function
        self.timeout: float = timeout
        self.description: Description = Description.of(function)

    def ask(self, fields: Mapping[str, Any], signature: Signature) -> Outcome:
        """Call the function."""

        def call() -> Outcome:
            return read_value(signature.call(self.function, fields))

        try:
            return outcome(lambda: _within(self.timeout, call))
        except Late:
            return Outcome("hang", text=f"no answer within {self.timeout:g} seconds")


def _within(seconds: float, call: Callable[[], Outcome]) -> Outcome:
    """Return the result of a call, or interrupt it if it takes longer.

    This is possible in the main thread on Unix; elsewhere there is no limit.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        return call()

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if frame is None or frame.f_code is not _within.__code__:  # the call has not ended
            raise Late

    previous = signal.signal(signal.SIGALRM, interrupt)
    other = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, *other)
        signal.signal(signal.SIGALRM, previous)


class Process:
    """A program that answers requests; it is started again after a crash or a hang."""

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        self.command: list[str] = [*command]
        self.timeout: float = timeout
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._thread = threading.Thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._end(_GRACE if error is None else 0)  # after a signal, there may be no time to wait

    def ask(self, fields: Mapping[str, Any], signature: Signature) -> Outcome:  # noqa: ARG002
        """Send a request, and return the outcome for its answer."""
        line, problem = self.exchange(fields)
        found = problem or read_answer(line, self._number)
        if found.kind == "noise":  # the next line may answer this request
            self._end()
        return found

    def exchange(
        self, fields: Mapping[str, Any], timeout: float | None = None
    ) -> tuple[bytes, Outcome | None]:
        """Send a request, and return the line of the answer, or why there is none."""
        seconds = timeout or self.timeout
        process = self._started()
        self._number += 1
        request = json.dumps({"id": self._number, **fields}, ensure_ascii=False) + "\n"
        lines: list[bytes] = []

        def communicate() -> None:
            with suppress(OSError, ValueError):  # the process has ended
                process.stdin.write(request.encode())  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                lines.append(process.stdout.readline(_LONGEST))  # type: ignore[union-attr]

        self._thread = threading.Thread(target=communicate, daemon=True)
        self._thread.start()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._end()
            return b"", Outcome("hang", text=f"no answer within {seconds:g} seconds")
        line = lines[0] if lines else b""
        problem = None if line else Outcome("exit", text=self._last_words())
        if not line.endswith(b"\n"):
            self._end()
        return line, problem

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the running process, or start it, in a group of processes of its own."""
        if self._process is None:
            self._errors = TemporaryFile()  # noqa: SIM115  (a pipe could fill up)
            try:
                self._process = subprocess.Popen(  # noqa: S603  (it is what the user wants to run)
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=self._errors, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                self._errors.close()
                raise SourceError(
                    f"cannot run `command` {self.command[0]!r}: {error.strerror}"
                ) from error
        return self._process

    def _last_words(self) -> str:
        """Return how a process ended, with its last line on standard error."""
        process = self._process
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)  # type: ignore[union-attr]
        code = process.returncode  # type: ignore[union-attr]
        self._errors.seek(0)
        lines = self._errors.read()[-_LONGEST:].decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        ended = "closed its output" if code is None else f"ended with code {code}"
        return f"the process {ended}" + (f": {last}"[:120] if last else "")

    def _end(self, grace: float = 0) -> None:
        """End the process with all that it started, at the latest some seconds after its input."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            with suppress(OSError, subprocess.TimeoutExpired):
                if grace:
                    process.stdin.close()  # type: ignore[union-attr]
                    process.wait(grace)
        finally:
            with suppress(OSError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
            process.wait()
            self._errors.close()
        self._thread.join(_GRACE)
        if not self._thread.is_alive():  # otherwise another program holds the output
            for file in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not written cannot be flushed
                    file.close()  # type: ignore[union-attr]


class Imported(Process):
    """A Python function, by its import path, in a process of its own."""

    def __init__(self, target: str, timeout: float) -> None:
        program = "from polars_rank.conformance.processes import serve; serve()"
        super().__init__([sys.executable, "-c", program, target], timeout)

    @cached_property
    def description(self) -> Description:
        """The description of the function."""
        return self._described()

    def ask(self, fields: Mapping[str, Any], signature: Signature) -> Outcome:
        """Call the function; its module is imported first, which may take longer than a call."""
        if self._process is None:
            self._described()
        call = {"signature": str(signature), "arrays": signature.arrays}
        return super().ask({**fields, **call}, signature)

    def _described(self) -> Description:
        line, problem = self.exchange({"describe": True}, max(self.timeout, _IMPORT))
        if problem is not None:
            text = problem.text.removeprefix("the process ended with code 1: ")
            raise SourceError(f"cannot import `function`: {text}")
        return Description(*json.loads(line)["description"])


def serve() -> None:
    """Answer requests about the function that the command line names."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # what the function prints is no answer
    function = _loaded(sys.argv[1])
    for line in sys.stdin.buffer:
        print(json.dumps(_answer(function, json.loads(line))), file=answers, flush=True)


def _loaded(target: str) -> Callable[..., Any]:
    """Return the function of a text such as "my_eval:ndcg" or "my_eval.py:ndcg"."""
    module, _, name = target.rpartition(":")
    if module.endswith(".py"):
        if not Path(module).exists():
            sys.exit(f"the file '{module}' (`function`) does not exist")
        sys.path.insert(0, str(Path(module).resolve().parent))
        spec: Any = spec_from_file_location(Path(module).stem, module)
        found = module_from_spec(spec)
        spec.loader.exec_module(found)
    else:
        found = import_module(module)
    try:
        return attrgetter(name)(found)  # type: ignore[no-any-return]
    except AttributeError:
        sys.exit(f"{module!r} (`function`) has no function {name!r}")


def _answer(function: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    answer = {"id": request["id"]}
    if "describe" in request:
        return {**answer, "description": Description.of(function)}
    signature = replace(Signature.read(request["signature"]), arrays=request["arrays"])
    found = outcome(lambda: read_value(signature.call(function, request)))
    key = next((key for key, kind in ANSWERS.items() if kind == found.kind), "value")
    return {**answer, key: found.text or found.value}
