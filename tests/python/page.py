"""The examples of docs/clients/python.md, each as a program of its own.

Enters: AMQP_URL.  Leaves: a line for each example.
Owns:   nothing: what the examples declare is the broker's, which is the run's own.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from report import Report, equal

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "clients" / "python.md"
URL = os.environ["AMQP_URL"]
LOCAL = "amqp://guest:guest@localhost/%2F"
LOCAL_TASKS = "harrier+rdma://guest:guest@localhost//?via=tcp&fallback=tcp"
#: What each example prints, by the heading that it stands under.
PRINTS = {
    "First message": "Hello World!\n",
    "Many messages at once": "",
    "Bodies without a copy": "1048576 0\n",
    "asyncio": "b'Hello World!'\n",
    "Celery and kombu": "",
}


def examples():
    """Heading and program of each block of Python."""
    page = PAGE.read_text()
    headings = [(found.start(), found[1]) for found in re.finditer(r"^## (.*)$", page, re.MULTILINE)]
    for found in re.finditer(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        yield [name for at, name in headings if at < found.start()][-1], found[1]


def prints(program, wanted):
    equal(LOCAL in program or LOCAL_TASKS in program, True, "it has the address that stands for this broker's")
    program = program.replace(LOCAL, URL).replace(LOCAL_TASKS, URL.replace("amqp:", "harrier:"))
    with tempfile.TemporaryDirectory(prefix="harrier-example-") as folder:
        path = Path(folder) / "example.py"
        path.write_text(program)
        # Not among this folder's modules.
        ran = subprocess.run([sys.executable, path], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    equal((ran.stdout, ran.stderr, ran.returncode), (wanted, "", 0))


if __name__ == "__main__":
    report = Report()
    found = list(examples())
    report.check("python-page-has-examples", equal, [heading for heading, _ in found], list(PRINTS))
    for heading, program in found:
        report.check(f"python-page-{heading.lower().replace(' ', '-')}", prints, program, PRINTS.get(heading, ""))
    report.exit()
