"""pika's run of the expectations, and of errors.toml.

Enters: AMQP_URL, AMQP_BROKER.  Leaves: a line for each expectation (see report.py).
Owns:   nothing.
Never:  runs two at once.
"""

import exchange_types
import features
import messages
import situations
import topology
import cases
from report import Report

report = Report()
SUITES = (topology, messages, features, exchange_types)
for name, body in (item for suite in SUITES for item in suite.EXPECTATIONS.items()):
    report.check(name, body)
for case in cases.load():
    if situations.sayable(case):
        report.check(f"error {case['name']}", situations.situation, case)
report.exit()
