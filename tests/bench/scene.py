"""What every test of `harrier bench` stands on: the program run to its end, brokers that come and go, documents read back.

Enters: HARRIER (the program), OUT (where documents and logs go).  Leaves: what the program said, and how it ended.
Owns:   the processes it starts, each ended by its own id.
Never:  waits without a deadline; judges a rate or a time.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "interop"), str(TESTS / "interop" / "raw")]

import ready
from report import Report, Skip, equal  # noqa: F401 (passed on)

TREE = TESTS.parent
PROGRAM = Path(
    os.environ.get("HARRIER", Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")) / "release" / "harrier")
)
OUT = TREE / "out" / "bench-tests"
DEADLINE_S = 90
# Exit statuses of `harrier bench`.
WELL, FAILED, USAGE, INVALID, INTERRUPTED = 0, 1, 2, 3, 130


@dataclass
class Ended:
    """How a command ended."""

    words: list
    status: int
    out: str
    err: str
    document: dict = field(default=None)

    def told(self):
        return (
            f"`harrier bench {' '.join(self.words)}` ended with {self.status}\n{self.out[-1500:]}\n{self.err[-1500:]}"
        )

    def rows(self):
        """The rows of its tables: lines that begin with a number."""
        return [line.split() for line in self.out.splitlines() if line[:1].isdigit()]


def need(condition, why, ended=None):
    if not condition:
        raise AssertionError(f"{why}{': ' + ended.told() if ended else ''}")


def bench(*words, status=WELL, deadline_s=DEADLINE_S, document=None, before=None, meanwhile=None, command="bench"):
    """Runs a command to its end. `status`: what it must end with, or several of which one. `document`: a name for its `--json`,
    read back. `meanwhile`: called with the running process. `command`: another one of the program's."""
    words = [str(word) for word in words]
    path = None
    if document:
        path = OUT / f"{document}.json"
        path.unlink(missing_ok=True)
        words += ["--json", str(path)]
    process = subprocess.Popen(
        [PROGRAM, command, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )
    try:
        if meanwhile:
            meanwhile(process)
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        ended = Ended(words, process.returncode, out, err)
        raise AssertionError(f"not within {deadline_s} s: {ended.told()}") from None
    except BaseException:
        process.kill()
        process.communicate()
        raise
    ended = Ended(words, process.returncode, out, err)
    allowed = status if isinstance(status, tuple) else (status,)
    need(ended.status in allowed, f"expected status {' or '.join(map(str, allowed))}", ended)
    need("panicked" not in err, "the program panicked", ended)
    if path and path.exists():
        ended.document = json.loads(path.read_text())
    return ended


def points(document):
    """All points of a document with their series."""
    return [(series, point) for series in document["series"] for point in series["points"]]


def runs(document):
    return [run for _, point in points(document) for run in point["runs"]]


def faults(document):
    """Sum of each kind of fault over all runs."""
    total = {}
    for run in runs(document):
        for kind, count in run["faults"].items():
            total[kind] = total.get(kind, 0) + count
    return total


# What a busy machine may do to a run that is otherwise in order.
BUSY = ("cores", "processor", "behind", "steady", "load generator", "85 %")


def whole(ended, status=None):
    """A run that lost nothing and measured everything: status 0, or 3 because the machine was too busy, and nothing else."""
    document = ended.document
    need(document is not None, "no document was written", ended)
    need(document["schema"].startswith("harrier-bench/1."), f"schema {document['schema']}", ended)
    need(document["cut_short"] is None and document["ended"], "the document says that it was cut short", ended)
    need(points(document), "nothing was measured", ended)
    for series, point in points(document):
        need(point["runs"], f"{series['benchmark']} at {point['at']}: no runs", ended)
        for run in point["runs"]:
            done = run["published"] + run["delivered"] + (run["operations"] or 0)
            # A group of a workload may have had nothing to do in so short a time; all groups together, which come first, may not.
            idle = series["axis"] == "group" and point["at"] > 0
            need(idle or (done > 0 and run["elapsed_s"] > 0), f"{series['benchmark']}: a run without work", ended)
            other = [why for why in run["invalid"] if not any(word in why for word in BUSY)]
            need(not other, f"invalid: {other}", ended)
    need(not any(faults(document).values()), f"faults: {faults(document)}", ended)
    need(ended.status == WELL or any(run["invalid"] for run in runs(document)), "status 3, and no run says why", ended)
    return document


# Brokers.


def until(condition, what, deadline_s=20):
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(0.01)  # between two looks at the condition, which has a deadline


@dataclass
class Broker:
    name: str
    product: str
    port: int
    pid: int

    def url(self, user="guest", password="guest", vhost="%2F"):
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{vhost}"


@contextlib.contextmanager
def harrier(*options, before=None):
    """This project's broker in a process of its own, which a test may kill."""
    words = [PROGRAM, "broker", "--state", "none", "--listen", "127.0.0.1:0", *options]
    process, line = ready.start(words, OUT / "harrier.log", preexec_fn=before)
    try:
        yield Broker("harrier", "Harrier", line.port, process.pid)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


@contextlib.contextmanager
def scripted(name, product):
    """A broker of ../rabbitmq or ../qpid."""
    folder = OUT / name
    started = subprocess.run(
        [TESTS / name / "start", folder, "0"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if started.returncode == 77:
        raise Skip(started.stderr.strip().splitlines()[-1].removeprefix("SKIPPED: "))
    need(started.returncode == 0, f"{name} does not start: {started.stderr[-800:]}")
    try:
        said = dict(line.split(" ", 1) for line in started.stdout.splitlines())
        yield Broker(name, product, int(said["url"].rsplit(":", 1)[1].split("/")[0]), int(said["pid"]))
    finally:
        subprocess.run([TESTS / name / "stop", folder], stdin=subprocess.DEVNULL, check=True)


BROKERS = {
    "harrier": harrier,
    "rabbitmq": lambda: scripted("rabbitmq", "RabbitMQ"),
    "qpid": lambda: scripted("qpid", "Qpid"),
}
