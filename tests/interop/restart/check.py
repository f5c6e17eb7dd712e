"""What survives a restart, asked of both brokers: pika meets a broker, stops it and starts it again.

Enters: BROKER_DURABLE, AMQP_BROKER.  Leaves: a line for each expectation and way to end the broker (see report.py).
Owns:   a durable broker of its own, and what the expectations declare there.
Never:  kills RabbitMQ: it does not write what it confirms to the disk at once.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import pika

from expectations import EXPECTATIONS
from report import Report
from second import started, stopped

PURPOSES = {"stop": "restart", "kill": "killed"}


class Broker:
    """The connections to one life of the broker."""

    def __init__(self, url, prefix):
        self.url, self.prefix, self.connections = url, prefix, []

    def connection(self):
        made = pika.BlockingConnection(pika.URLParameters(self.url))
        self.connections.append(made)
        return made

    def channel(self, confirms=False):
        channel = self.connection().channel()
        if confirms:
            channel.confirm_delivery()
        return channel

    def close(self):
        """A broker that was killed has closed them already."""
        for connection in self.connections:
            if connection.is_open:
                connection.close()
        self.connections = []


def before(report, broker):
    """Runs each expectation up to the restart. Returns those that got there."""
    begun = {}
    for name, expectation in EXPECTATIONS.items():
        steps = expectation(broker)

        def first(steps=steps):
            next(steps)

        # What holds is said after the restart.
        try:
            first()
            begun[name] = steps
        except Exception as error:
            report.fail(f"{broker.prefix}-{name}", f"before the restart: {type(error).__name__}: {error}")
    return begun


def after(steps):
    for _ in steps:
        raise AssertionError("an expectation has one restart")


def run(report, word):
    broker = Broker(started("BROKER_DURABLE"), PURPOSES[word])
    begun = before(report, broker)
    if word == "stop":
        # Before a kill they stay open: the broker ends with what it knows of them.
        broker.close()
    stopped("BROKER_DURABLE", word)
    broker.connections = []
    broker.url = started("BROKER_DURABLE")
    for name, steps in begun.items():
        report.check(f"{broker.prefix}-{name}", after, steps)
    broker.close()


def main():
    report = Report()
    for word in ("stop", "kill") if os.environ.get("AMQP_BROKER") == "harrier" else ("stop",):
        run(report, word)
    stopped("BROKER_DURABLE")
    report.exit()


main()
