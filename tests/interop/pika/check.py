"""pika's run of the expectations, and of errors.toml.

Enters: AMQP_URL, AMQP_BROKER.  Leaves: a line for each expectation (see report.py).
Owns:   nothing.
Never:  runs two at once.
"""

import deaths
import features
import limits
import messages
import situations
import topology
import cases
from report import Report

report = Report()
files = (topology, messages, features, limits, deaths)
for name, body in (pair for file in files for pair in file.EXPECTATIONS.items()):
    report.check(name, body)
for case in cases.load(cases.ERRORS):
    if situations.sayable(case):
        report.check(f"error {case['name']}", situations.situation, case)
report.exit()
