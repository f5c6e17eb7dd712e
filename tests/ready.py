"""The line by which a broker or a proxy of this program logs that it is ready, and where: the one reader of it in Python.

Enters: the program's words.  Leaves: a process that listens at a port of its own choice, and which port.
Owns:   nothing: the process is its caller's.
Never:  picks a port: one that is free now may be another program's when it is bound.
"""

import json
import subprocess
import time

READY_S_MAX = 20


class NotReady(Exception):
    """It has ended, or is late; with the end of its log."""


class ReadyLine:
    def __init__(self, line):
        fields = json.loads(line)
        self.pid = fields["pid"]
        self.addresses = fields["addresses"].split()
        self.management = fields.get("management", "").split()

    @property
    def port(self):
        """That of the first address."""
        return port_of(self.addresses[0])


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def find(log, pid):
    """The line of this process in a log (bytes), which may be that of several; None as long as it is not there."""
    for line in log.splitlines(keepends=True):
        # The last line may not be whole yet.
        if line.endswith(b"\n") and (b'"harrier broker is ready"' in line or b'"harrier proxy is ready"' in line):
            found = ReadyLine(line)
            if found.pid == pid:
                return found
    return None


def start(words, log, wait_s=READY_S_MAX, **options):
    """Starts a program with its log in this file, which it may share with others. Answers its process and its line.
    The words name the addresses; the format of the log, and its level unless they name one, come from here."""
    program, kind, *rest = words
    command = [program, kind, "--log-level", "info", *rest, "--log-format", "json"]
    with open(log, "ab") as out:
        begin = out.tell()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options)
    deadline = time.monotonic() + wait_s
    while True:
        ended = process.poll()
        with open(log, "rb") as text:
            text.seek(begin)
            said = text.read()
        if found := find(said, process.pid):
            return process, found
        if ended is not None or time.monotonic() > deadline:
            if ended is None:
                process.kill()
                process.wait()
            why = f"ended with {ended}" if ended is not None else f"is not ready after {wait_s} s"
            raise NotReady(f"{words[0]} {why}: {said[-2000:].decode(errors='replace')}")
        time.sleep(0.01)  # between two looks at the condition, which has a deadline
