"""What MassTransit and Shovel do with a broker, said by hand with pika.

Enters: AMQP_URL, BROKER_SECOND (see ../second.py).  Leaves: a line for each expectation (see report.py).
Owns:   nothing.
Never:  runs two at once.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "pika"))

import masstransit
import shovel
from report import Report

report = Report()
for name, body in (masstransit.EXPECTATIONS | shovel.EXPECTATIONS).items():
    report.check(name, body)
report.exit()
