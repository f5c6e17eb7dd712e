"""RabbitMQ PerfTest as a load: every message of a counted run must arrive, and the program must end well.

Enters: AMQP_URL, CACHE/lib (its jars).  Leaves: a line for each load (see report.py); PerfTest's own words on standard error.
Owns:   queues of its own names, which go with their connections.
Never:  judges speed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from report import Report

DEADLINE_S = 60
report = Report()

# Counts are of each producer and each consumer.
LOADS = {
    "load automatic acks": "--producers 1 --consumers 1 --autoack --size 64 --pmessages 30000 --cmessages 30000",
    "load confirms and multiple acks": "--producers 2 --consumers 2 --confirm 200 --qos 100 --multi-ack-every 10 --size 256 --pmessages 10000 --cmessages 10000",
    "load many queues": "--queue-pattern interop-perf-%d --queue-pattern-from 1 --queue-pattern-to 20 --producers 20 --consumers 20 --qos 10 --size 100 --pmessages 500 --cmessages 500",
    "load fan-out": "--type fanout --exchange interop-perf-fanout --producers 1 --consumers 8 --autoack --size 100 --pmessages 2000 --cmessages 2000",
    "load persistent, nacked and redelivered": "--producers 1 --consumers 1 --flag persistent --qos 50 --nack --requeue false --size 1000 --pmessages 5000 --cmessages 5000",
    "load transactions": "--producers 1 --consumers 1 --ptxsize 10 --ctxsize 10 --multi-ack-every 10 --qos 50 --size 64 --pmessages 1000 --cmessages 1000",
    "load mandatory returns": "--producers 1 --consumers 0 --flag mandatory --type direct --exchange amq.direct --routing-key nowhere --confirm 50 --size 64 --pmessages 2000",
    "load large bodies": "--producers 1 --consumers 1 --autoack --size 1000000 --pmessages 100 --cmessages 100",
}


def load(flags):
    command = [
        "java",
        "-XX:+UseSerialGC",
        "-Xmx1g",
        "-cp",
        f"{os.environ['CACHE']}/lib/*",
        "com.rabbitmq.perf.PerfTest",
        "--uri",
        os.environ["AMQP_URL"],
        "--id",
        "interop",
        *flags.split(),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"not all arrived within {DEADLINE_S} s: {(late.stdout or b'')[-400:]!r}") from late
    print(done.stdout, done.stderr, file=sys.stderr)
    summary = re.search(
        r"receiving rate avg: (\d+)" if "--consumers 0" not in flags else r"sending rate avg: (\d+)", done.stdout
    )
    if done.returncode or not summary or int(summary[1]) == 0:
        raise AssertionError(f"ended with {done.returncode}: {(done.stdout + done.stderr)[-400:]}")


for name, flags in LOADS.items():
    report.check(name, load, flags)
report.exit()
