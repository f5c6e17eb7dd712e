"""pika's run of the expectations, and of errors.toml.

Enters: AMQP_URL, AMQP_BROKER.  Leaves: a line for each expectation (see report.py).
Owns:   nothing.
Never:  runs two at once.
"""

import features
import messages
import situations
import topology
import cases
from report import Report

report = Report()
for name, body in (topology.EXPECTATIONS | messages.EXPECTATIONS | features.EXPECTATIONS).items():
    report.check(name, body)
for case in cases.load():
    if situations.sayable(case):
        report.check(f"error {case['name']}", situations.situation, case)
report.exit()
