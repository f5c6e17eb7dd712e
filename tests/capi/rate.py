#!/usr/bin/env python3
"""What a message costs a C program: this library and librabbitmq by the same program, and pika beside them.

Usage:  rate.py [COUNT]      after `cargo build --profile wheel -p harrier-capi`; librabbitmq-dev installed, and pika in the
        environment's Python.
Leaves: a table: messages a second and the client's processor time a message, of publishing and of consuming 64 bytes; the
        median of five runs that take turns, and lowest and highest.
Env:    HARRIER_BIN: the program; default: what `cargo build --release -p harrier` leaves.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import broker  # noqa: E402

from certificates import Certificates  # noqa: E402
from library import placed  # noqa: E402

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", broker.TREE / "target"))
RUNS = 5
RUN_S_MAX = 120


def program(folder, name, *flags):
    path = Path(folder) / name
    command = [os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-Werror", HERE / "rate.c", "-o", path, *flags]
    subprocess.run(command, check=True)

    def run(url, count):
        words = os.environ | {"AMQP_URL": url}
        said = subprocess.run([path, str(count)], env=words, capture_output=True, text=True, check=True, timeout=RUN_S_MAX)
        return [float(word) for word in said.stdout.split()]

    return run


def pika(url, count):
    """Without confirms, whose wait pika has after each message."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    found = []
    wall, cpu = time.monotonic(), time.process_time()

    def end():
        found.append(count / (time.monotonic() - wall))
        found.append((time.process_time() - cpu) / count * 1e6)

    for _ in range(count):
        channel.basic_publish("", queue, bytes(64))
    assert channel.queue_declare(queue, passive=True).method.message_count == count
    end()
    channel.basic_qos(prefetch_count=1000)
    wall, cpu = time.monotonic(), time.process_time()
    for seen, (method, _, _) in enumerate(channel.consume(queue), 1):
        if seen % 100 == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if seen == count:
            break
    end()
    connection.close()
    return found


def cell(values, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="harrier-capi-rate-") as folder:
        library = placed(TARGET / "wheel", Path(folder) / "library")
        include = broker.TREE / "crates" / "capi" / "include"
        ours = ("-I", include, "-L", library, f"-Wl,-rpath,{library}", "-lharrier")
        ways = {"librabbitmq": program(folder, "theirs", "-DRABBITMQ_C", "-lrabbitmq")}
        ways |= {"libharrier": program(folder, "ours", *ours)}
        try:
            # A folder of this name, that of a test, is no package.
            from pika import BlockingConnection as _

            ways = {"pika": pika, **ways}
        except ImportError:
            print("SKIPPED: pika is not installed", file=sys.stderr)
        started = broker.Broker(folder, Certificates(Path(folder) / "certificates"))
        found = {name: [] for name in ways}
        try:
            for _ in range(RUNS):
                for name, run in ways.items():
                    # What takes a second of pika takes the others a moment.
                    found[name].append(run(started.url, count if name == "pika" else 10 * count))
        finally:
            started.stop()
    print("| | published a second | client CPU, µs | consumed a second | client CPU, µs |\n|---|---|---|---|---|")
    for name, runs in found.items():
        cells = [cell([run[place] for run in runs], (0, 2)[place % 2]) for place in range(4)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
