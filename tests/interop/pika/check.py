"""pika's run of the expectations, and of errors.toml.

Enters: AMQP_URL, AMQP_BROKER.  Leaves: a line for each expectation (see report.py).
Owns:   nothing.
Never:  runs two at once.
"""

import os
import ssl

import deaths
import exchange_types
import features
import limits
import messages
import situations
import topology
import cases
import scene
from report import Report


def foreign_authority():
    """The broker's certificate is verified: by another authority it is none."""
    try:
        with scene.connection(authority=os.environ["AMQP_FOREIGN_CA"]):
            raise AssertionError("it was trusted")
    except ssl.SSLCertVerificationError:
        pass


report = Report()
SUITES = (topology, messages, features, exchange_types, limits, deaths)
if "AMQP_FOREIGN_CA" in os.environ:
    report.check("tls-foreign-authority", foreign_authority)
for name, body in (item for suite in SUITES for item in suite.EXPECTATIONS.items()):
    report.check(name, body)
# What is refused does not depend on what carries it.
for case in [] if {"AMQP_CA", "AMQP_CARRIED"} & set(os.environ) else cases.load(cases.ERRORS):
    if situations.sayable(case):
        report.check(f"error {case['name']}", situations.situation, case)
report.exit()
