"""What the bad clients stand on: logged-in sockets, how a connection must end, what the broker holds.

Enters: AMQP_URL, AMQP_BROKER, BROKER_PID (optional, to watch its memory).  Leaves: peers.
Owns:   nothing.
Never:  waits without a deadline.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import amqp
import bad_input
from amqp import METHOD, Gone, Peer
from report import equal

URL = os.environ["AMQP_URL"]
BROKER = os.environ.get("AMQP_BROKER", "other")
CLOSES = {"authentication_failure_close": True, "publisher_confirms": True}


def memory_bytes():
    """What the broker's process holds, or None where it is not ours to look at."""
    pid = os.environ.get("BROKER_PID")
    if not pid:
        return None
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def connected(**options):
    return Peer(URL).login(CLOSES, **options).open()


def ended(peer, codes, text=None, deadline_s=10):
    """The connection must be closed with one of these codes (GONE: without a word)."""
    how, fields = peer.ending(deadline_s)
    code = fields["reply_code"] if fields else bad_input.GONE
    if code not in codes:
        raise AssertionError(f"closed with {fields or how}, expected {codes}")
    if text and fields:
        equal(fields["reply_text"], text)


def answered(peer):
    """Whether the connection goes on: (FINE | code, scope, text) of what follows."""
    peer.method(1, "basic.qos")
    try:
        while True:
            kind, _, payload = peer.next_frame()
            if kind != METHOD:
                continue
            name, fields = amqp.decode(payload)
            if name == "basic.qos-ok":
                return bad_input.FINE, "connection", ""
            if name in ("connection.close", "channel.close"):
                peer.method(0 if name == "connection.close" else 1, f"{name}-ok")
                return fields["reply_code"], name.split(".")[0], fields["reply_text"]
    except Gone:
        return bad_input.GONE, "connection", ""


def bounded(before, more_bytes_max):
    if before is None or BROKER == "rabbitmq":
        return
    now = memory_bytes()
    if now > before + more_bytes_max:
        raise AssertionError(f"the broker's memory went from {before >> 20} to {now >> 20} MiB")
