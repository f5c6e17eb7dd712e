"""A second broker of the same kind, for suites that republish to one, or that stop, kill and start one.

Enters: a word a line over the Unix socket that BROKER_SECOND names, or BROKER_DURABLE for one that keeps what is durable:
        `start`, `stop`, `kill`.  Leaves: `ok [URL]`, `none WHY` or `error WHY`.
Owns:   that broker, which starts when it is first asked for, keeps its address, and is stopped when the run ends.
Never:  the broker under test: a suite must not end what the next one needs.
"""

import os
import shutil
import socket
import socketserver
import tempfile
import threading
from pathlib import Path

ANSWER_S_MAX = 120


class Second:
    """The driver's end. `make` starts one, or is None where nobody can."""

    def __init__(self, make):
        self.make, self.broker, self.running = make, None, False
        self.folder = Path(tempfile.mkdtemp(prefix="interop-"))
        self.path = str(self.folder / "second")

        class Handler(socketserver.StreamRequestHandler):
            def handle(handler):
                for line in handler.rfile:
                    handler.wfile.write(f"{self.answer(line.decode().strip())}\n".encode())

        self.server = socketserver.UnixStreamServer(self.path, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, word):
        if not self.make:
            return "none the broker was given by its URL, and there is no second one"
        try:
            if word == "start" and not self.running:
                if self.broker:
                    self.broker.start()
                else:
                    self.broker = self.make()
                self.running = True
            elif word == "stop" and self.running:
                self.running = False
                trouble = self.broker.stop(wipe=False)
                if trouble:
                    return f"error {trouble}"
            elif word == "kill" and self.running:
                self.running = False
                self.broker.kill()
            elif word not in ("start", "stop", "kill"):
                return f"error there is no word {word!r}"
        except Exception as error:  # the suite that asked reports it
            return f"error {type(error).__name__}: {' '.join(str(error).split())}"
        return f"ok {self.broker.url if self.broker else ''}"

    def close(self):
        """Returns what went wrong."""
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.folder)
        return self.broker.stop() if self.running else None


def ask(word, which="BROKER_SECOND"):
    """A Python suite's end: the answer as (state, text)."""
    path = os.environ.get(which)
    if not path:
        return "none", "nobody offers a second broker here"
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_S_MAX)
        line.connect(path)
        line.sendall(f"{word}\n".encode())
        state, _, text = line.makefile().readline().strip().partition(" ")
    return state, text


def started(which="BROKER_SECOND"):
    """The URL of the second broker. Raises report.Skip where there is none."""
    from report import Skip

    state, text = ask("start", which)
    if state == "none":
        raise Skip(text)
    if state != "ok":
        raise AssertionError(f"the second broker did not start: {text}")
    return text


def stopped(which="BROKER_SECOND", word="stop"):
    state, text = ask(word, which)
    if state != "ok":
        raise AssertionError(f"the second broker did not stop: {text}")
