"""The lines by which a client's suite tells the driver what it found.

Enters: named checks.  Leaves: `ok NAME`, `not ok NAME - why`, `skip NAME - why` on standard output, one a line.
Owns:   nothing but its tally.
Never:  hides an exception: the whole trace goes to standard error.
"""

import os
import sys
import time
import traceback


class Skip(Exception):
    """Raised by an expectation that cannot be tried here; says why."""


class Report:
    def __init__(self):
        self.failed = 0
        self.only = set(filter(None, os.environ.get("INTEROP_ONLY", "").split(",")))

    def ok(self, name):
        print(f"ok {name}", flush=True)

    def fail(self, name, why):
        self.failed += 1
        print(f"not ok {name} - {' '.join(str(why).split())[:600]}", flush=True)

    def skip(self, name, why):
        print(f"skip {name} - {why}", flush=True)

    def check(self, name, body, *arguments):
        """Runs one expectation. Returns whether it held."""
        if self.only and name not in self.only:
            return True
        start = time.monotonic()
        try:
            body(*arguments)
        except Skip as why:
            self.skip(name, why)
            return True
        except Exception as error:
            print(f"--- {name} after {time.monotonic() - start:.1f} s", file=sys.stderr)
            traceback.print_exc()
            self.fail(name, f"{type(error).__name__}: {error}")
            return False
        self.ok(name)
        return True

    def exit(self):
        sys.exit(1 if self.failed else 0)


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}{': ' if what else ''}got {got!r}, expected {want!r}")
