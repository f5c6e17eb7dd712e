"""Bad input over bare sockets, with a well-behaved pika client beside it that must notice nothing.

Enters: AMQP_URL, AMQP_BROKER (rabbitmq, harrier or other).  Leaves: a line for each expectation (see report.py).
Owns:   the neighbour process.
Never:  takes a broker that hangs for one that refuses.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scene import BROKER, URL, answered, connected  # first: it says where report.py is
import bad_input
import cases
import login
import misbehaviour
from report import Report, equal

NEIGHBOUR_MS_MAX = 3000
report = Report()


class Neighbour:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("neighbour.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        equal(self.process.stdout.readline().strip(), "ready", "neighbour")

    def undisturbed(self):
        """Asks for its rounds since the last question: it must be alive, and never have waited long."""
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise AssertionError(f"the well-behaved client beside it ended with {self.process.wait(10)}")
        if int(answer[1]) > NEIGHBOUR_MS_MAX:
            raise AssertionError(f"the well-behaved client beside it once waited {answer[1]} ms")

    def end(self):
        self.process.stdin.close()
        return self.process.wait(20)


def bad_bytes(case):
    with connected() as peer:
        peer.send(case.send)
        code, scope, text = answered(peer)
        codes = case.rabbitmq if BROKER == "rabbitmq" and case.rabbitmq else case.codes
        if code not in codes or (code > 0 and scope != case.scope):
            raise AssertionError(f"got {code} {scope} {text!r}, expected {codes} {case.scope}")
        if case.text and (BROKER == "harrier" or BROKER == "rabbitmq" and not case.rabbitmq):
            # RabbitMQ breaks what it prints into lines of 80 columns.
            equal(re.sub(r"\n *", "", text), case.text)
        if len(text.encode()) > 255:
            raise AssertionError(f"a reply text of {len(text.encode())} bytes")
        if scope == "connection" and code > 0:
            # After close and close-ok the socket must end.
            peer.ending(10)


def situation(case):
    unique = f"{case['name']}-{os.getpid()}"
    outcome = cases.run(URL, case, unique)
    difference = cases.judged(outcome, case, unique, BROKER)
    if difference:
        raise AssertionError(difference)


def main():
    neighbour = Neighbour()

    def beside(body, *arguments):
        body(*arguments)
        neighbour.undisturbed()

    # The slow ones wait, all together, while the others run.
    with ThreadPoolExecutor(len(login.EXPECTATIONS)) as pool:
        waiting = {
            name: pool.submit(body)
            for name, body in login.EXPECTATIONS.items()
            if not report.only or f"bad {name}" in report.only
        }
        for case in cases.load():
            report.check(f"error {case['name']}", situation, case)
        for case in bad_input.CASES:
            report.check(f"bad {case.name}", beside, bad_bytes, case)
        for name, body in misbehaviour.EXPECTATIONS.items():
            report.check(f"bad {name}", beside, body)
        for name, future in waiting.items():
            report.check(f"bad {name}", beside, future.result, 60)
    report.check("bad neighbour-to-the-end", lambda: equal(neighbour.end(), 0, "the well-behaved client's exit"))
    report.exit()


main()
