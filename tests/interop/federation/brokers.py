"""Brokers of this suite's own: RabbitMQ with and without its federation plugin, and Harrier with a name and a folder.

Enters: what they are to be.  Leaves: their addresses, connections to them, the answers of `harrier route`.
Owns:   their processes and folders, which go with them.
Never:  touches the broker under test.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pika

from report import Skip

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent.parent
sys.path.insert(0, str(TREE / "tests"))

import ready  # noqa: E402 (it lies beside the suites)

RABBITMQ = TREE / "tests" / "rabbitmq"
NO_SUCH_PACKAGES = 77
UP_S_MAX = 15


def definitions(name, upstreams):
    """Whatever begins with a key of `upstreams` pulls from the broker at its value."""

    def upstream(uri):
        return {"uri": uri, "prefetch-count": 100, "ack-mode": "on-confirm", "reconnect-delay": 1, "max-hops": 2}

    def policy(start):
        fits = {"vhost": "/", "name": start, "pattern": f"^{start}", "apply-to": "all", "priority": 0}
        return fits | {"definition": {"federation-upstream": start}}

    federated = {
        "parameters": [
            {"vhost": "/", "component": "federation-upstream", "name": start, "value": upstream(uri)}
            for start, uri in upstreams.items()
        ],
        "policies": [policy(start) for start in upstreams],
    }
    return {
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "global_parameters": [{"name": "cluster_name", "value": name}],
    } | (federated if upstreams else {})


class Broker:
    """What all have: an address, and connections to it."""

    def connect(self):
        settings = pika.URLParameters(self.url)
        settings.heartbeat = 0
        return pika.BlockingConnection(settings)

    @property
    def place(self):
        return f"127.0.0.1:{self.port}"


class RabbitMQ(Broker):
    """One with the plugin if it has upstreams, or is told so."""

    def __init__(self, name, upstreams=None, plugin=True):
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="interop-federation-"))
        self.port = 0
        known = self.folder / "definitions.json"
        known.write_text(json.dumps(definitions(name, upstreams or {})))
        self.more = {
            "RABBITMQ_PLUGINS": "rabbitmq_federation" if plugin else "",
            "RABBITMQ_CONF_EXTRA": f"load_definitions = {known}",
        }
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def start(self):
        command = [RABBITMQ / "start", self.folder / "broker", str(self.port)]
        answer = subprocess.run(
            command, env=os.environ | self.more, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if answer.returncode == NO_SUCH_PACKAGES:
            raise Skip(answer.stderr.strip())
        if answer.returncode:
            raise RuntimeError(answer.stderr.strip())
        self.url = dict(line.split(" ", 1) for line in answer.stdout.splitlines())["url"]
        # Started again, it is where it was.
        self.port = pika.URLParameters(self.url).port

    def halt(self):
        """It ends, and keeps what is durable."""
        subprocess.run([RABBITMQ / "stop", self.folder / "broker"], check=True, capture_output=True)

    def stop(self):
        subprocess.run([RABBITMQ / "stop", self.folder / "broker", "--wipe"], check=True, capture_output=True)
        shutil.rmtree(self.folder)


class Harrier(Broker):
    """With a name and a folder of its own."""

    def __init__(self, name):
        target = Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target"))
        self.binary = Path(os.environ.get("HARRIER", target / "release" / "harrier"))
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="interop-federation-"))
        self.port = 0
        self.start()
        self.url = f"amqp://guest:guest@{self.place}/%2F"

    def start(self):
        words = ["broker", "--listen", self.place, "--state", self.folder / "state", "--cluster-name", self.name]
        self.process, line = ready.start([self.binary, *words], self.folder / "log")
        # Started again, it is where it was.
        self.port = line.port

    def log(self):
        return (self.folder / "log").read_text()[-2000:]

    def route(self, *words):
        """`harrier route`: what it prints. It must succeed."""
        answer = subprocess.run([self.binary, "route", *words], capture_output=True, text=True, timeout=60)
        if answer.returncode:
            raise AssertionError(f"harrier route {' '.join(words)}: {answer.stderr.strip()}")
        return answer.stdout

    def ctl(self, *words):
        """`harrier ctl`: what it prints. It must succeed."""
        command = [self.binary, "ctl", "--url", self.url, *words]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if answer.returncode:
            raise AssertionError(f"harrier ctl {words[0]}: {answer.stderr.strip()}")
        return answer.stdout

    def refused(self, *words):
        """`harrier route`: why not. It must not succeed."""
        answer = subprocess.run([self.binary, "route", *words], capture_output=True, text=True, timeout=60)
        if answer.returncode != 1:
            raise AssertionError(f"harrier route {' '.join(words)}: {answer.returncode}")
        return answer.stderr

    def links(self):
        return json.loads(self.route("--json", "link", "list", self.place))["links"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(UP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end within {UP_S_MAX} s of SIGTERM") from None
        if status:
            raise AssertionError(f"{self.name} ended with status {status}: {self.log()}")
        shutil.rmtree(self.folder)
