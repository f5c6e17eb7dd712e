"""The amqp-* tools' run of the expectations: librabbitmq, the C client.

Enters: AMQP_URL, TOOLS (a folder with bin and lib).  Leaves: a line for each expectation (see report.py).
Owns:   queues of its own names, deleted in the end.
Never:  waits longer than its deadline for a tool.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import Report, equal

TOOLS = Path(os.environ["TOOLS"])
DEADLINE_S = 15
report = Report()


def tool(name, *arguments, given=b"", fails=False):
    """Standard output of a tool; it must end well (or, with `fails`, badly: then its complaint)."""
    library = next(TOOLS.glob("lib/*-linux-*"), TOOLS / "lib")
    done = subprocess.run(
        [TOOLS / "bin" / name, "--url", os.environ["AMQP_URL"], *arguments],
        input=given,
        capture_output=True,
        timeout=DEADLINE_S,
        env=os.environ | {"LD_LIBRARY_PATH": str(library)},
    )
    if (done.returncode != 0) != fails:
        raise AssertionError(
            f"{name} {' '.join(arguments)} ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
        )
    return done.stderr.decode(errors="replace") if fails else done.stdout


def unique(word):
    return f"tools-{word}-{os.getpid()}"


def declared(word):
    queue = unique(word)
    equal(tool("amqp-declare-queue", "--queue", queue), f"{queue}\n".encode())
    return queue


def connect():
    tool("amqp-delete-queue", "--queue", declared("connect"))


def queues():
    name = tool("amqp-declare-queue", "--queue", "").decode().strip()
    equal(name.startswith("amq.gen-"), True, name)
    tool("amqp-delete-queue", "--queue", name)
    queue = declared("queues")
    for _ in range(3):
        tool("amqp-publish", "--routing-key", queue, "--body", "x")
    equal(tool("amqp-delete-queue", "--queue", queue), b"3\n", "messages deleted")


def refusals():
    queue = declared("refused")
    said = tool("amqp-declare-queue", "--queue", queue, "--durable", fails=True)
    equal(
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in vhost '/'" in said and "406" in said,
        True,
        said,
    )
    tool("amqp-publish", "--routing-key", queue, "--body", "x")
    said = tool("amqp-delete-queue", "--queue", queue, "--if-empty", fails=True)
    equal(f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty" in said, True, said)
    tool("amqp-delete-queue", "--queue", queue)
    said = tool("amqp-get", "--queue", queue, fails=True)
    equal(f"NOT_FOUND - no queue '{queue}' in vhost '/'" in said and "404" in said, True, said)


def publish_consume():
    queue = declared("consume")
    lines = b"".join(b"%d\n" % number for number in range(1000))
    tool(
        "amqp-publish",
        "--routing-key",
        queue,
        "--line-buffered",
        "--persistent",
        "--content-type",
        "text/plain",
        "--header",
        "key: value",
        given=lines,
    )
    got = tool("amqp-consume", "--queue", queue, "--count", "1000", "--prefetch-count", "100", "cat")
    equal(got == lines, True, "a thousand lines, in order")
    equal(tool("amqp-delete-queue", "--queue", queue), b"0\n", "all were acknowledged")


def reject():
    # The tool rejects, with requeue, what its command fails on.
    queue = declared("reject")
    tool("amqp-publish", "--routing-key", queue, "--body", "x")
    tool("amqp-consume", "--queue", queue, "--count", "1", "--", "sh", "-c", "cat >/dev/null; false")
    equal(tool("amqp-consume", "--queue", queue, "--count", "1", "cat"), b"x")
    equal(tool("amqp-delete-queue", "--queue", queue), b"0\n")


def bind_unbind():
    # A queue of the consumer's own, bound to an exchange; what is published before it is there finds no queue.
    process = subprocess.Popen(
        [
            TOOLS / "bin" / "amqp-consume",
            "--url",
            os.environ["AMQP_URL"],
            "--exchange",
            "amq.direct",
            "--routing-key",
            unique("bound"),
            "--no-ack",
            "--count",
            "1",
            "cat",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"LD_LIBRARY_PATH": str(next(TOOLS.glob("lib/*-linux-*"), TOOLS / "lib"))},
    )
    try:
        # It says its queue's name as soon as it has declared it; it may take some messages until the binding is there.
        equal(b"amq.gen-" in process.stderr.readline(), True, "the queue's name")
        while process.poll() is None:
            tool("amqp-publish", "--exchange", "amq.direct", "--routing-key", unique("bound"), "--body", "routed")
        equal(process.stdout.read(), b"routed")
    finally:
        process.kill()
        process.wait()


def get():
    queue = declared("get")
    tool("amqp-publish", "--routing-key", queue, "--body", "one")
    equal(tool("amqp-get", "--queue", queue), b"one")
    tool("amqp-get", "--queue", queue, fails=True)
    tool("amqp-delete-queue", "--queue", queue)


def bodies():
    queue = declared("bodies")
    pattern = os.urandom(5 << 20)
    for size in (0, 1, 4095, 128 << 10, 1 << 20, 5 << 20):
        tool("amqp-publish", "--routing-key", queue, given=pattern[:size])
        equal(tool("amqp-get", "--queue", queue) == pattern[:size], True, f"{size} bytes unchanged")
    tool("amqp-delete-queue", "--queue", queue)


EXPECTATIONS = {
    "connect": connect,
    "queues": queues,
    "refusals": refusals,
    "bind-unbind": bind_unbind,
    "publish-consume": publish_consume,
    "reject": reject,
    "get": get,
    "bodies": bodies,
}
for name, body in EXPECTATIONS.items():
    report.check(name, body)
report.exit()
