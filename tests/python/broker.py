"""A broker for the package's tests: by TCP and by TLS, at ports of its own choice.

Enters: HARRIER_BIN.  Leaves: its process, and its addresses.
Owns:   the process, from `start` to `stop`.
"""

import os
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TREE / "tests"), str(TREE / "tests" / "interop")]

import ready  # noqa: E402

STOP_S_MAX = 20


def program():
    target = Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target"))
    binary = Path(os.environ.get("HARRIER_BIN", target / "release" / "harrier"))
    if not binary.exists():
        sys.exit(f"there is no {binary}: build it with `cargo build --release`, or set HARRIER_BIN")
    return binary


class Broker:
    def __init__(self, folder, certificates):
        words = [program(), "broker", "--state", "none", "--listen", "127.0.0.1:0", "--listen", "tls://127.0.0.1:0"]
        words += ["--tls-certificates", certificates.server, "--tls-keys", certificates.server_key]
        self.process, line = ready.start(words, Path(folder) / "broker.log")
        tcp, tls = (ready.port_of(address) for address in line.addresses)
        self.url = f"amqp://guest:guest@127.0.0.1:{tcp}/%2F"
        self.tls_url = f"amqps://guest:guest@127.0.0.1:{tls}/%2F?cacertfile={certificates.ca}"
        self.foreign_tls_url = f"amqps://guest:guest@127.0.0.1:{tls}/%2F?cacertfile={certificates.foreign_ca}"

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
