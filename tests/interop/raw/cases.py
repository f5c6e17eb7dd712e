"""errors.toml, run over a bare socket.

Enters: the situations of errors.toml.  Leaves: for each, what the broker answered: code, scope, text, ids; or that all went well.
Owns:   one connection a situation (two where it needs another client), closed in the end.
Never:  compares (see `compare`): `python cases.py URL` prints what a broker really does, to write the data from.
"""

import os
import re
import struct
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import amqp

ERRORS = Path(__file__).resolve().parent.parent / "errors.toml"


@dataclass
class Outcome:
    """`scope` is channel, connection, gone (a socket closed without a word) or none (everything was answered)."""

    scope: str
    code: int = 0
    text: str = ""
    ids: tuple = (0, 0)


def load(path=ERRORS):
    with open(path, "rb") as file:
        return tomllib.load(file)["case"]


def fill(value, name):
    """Puts the situation's own name in place of {n}, and field types where the data asks for one."""
    if isinstance(value, str):
        return value.replace("{n}", name)
    if isinstance(value, dict):
        if set(value) == {"long"}:
            return amqp.Raw(b"l" + struct.pack(">q", value["long"]))
        return {key: fill(item, name) for key, item in value.items()}
    return value


def property_bytes(properties):
    bits = {"reply_to": 9, "expiration": 8, "user_id": 4}
    flags, out = 0, b""
    for key in sorted(properties, key=lambda key: -bits[key]):
        flags |= 1 << bits[key]
        out += amqp.short_string(properties[key])
    return struct.pack(">H", flags) + out


def outcome_of(peer, awaited, channel):
    """Reads until the awaited answer or the broker's refusal."""
    try:
        while True:
            kind, on, payload = peer.next_frame()
            if kind != amqp.METHOD:
                continue
            name, fields = amqp.decode(payload)
            if name == "connection.close":
                peer.method(0, "connection.close-ok")
                return Outcome(
                    "connection", fields["reply_code"], fields["reply_text"], (fields["class_id"], fields["method_id"])
                )
            if name == "channel.close":
                peer.method(on, "channel.close-ok")
                return Outcome(
                    "channel", fields["reply_code"], fields["reply_text"], (fields["class_id"], fields["method_id"])
                )
            if name in awaited and on == channel:
                return None
    except amqp.Gone:
        return Outcome("gone")


def run(url, case, unique):
    """Carries out one situation; the outcome is that of the first step that is refused. Nothing is left behind."""
    with amqp.Peer(url) as first, amqp.Peer(url) as second:
        outcome = steps(case, unique, first, second)
        second.close()
        if outcome.scope in ("channel", "none"):
            first.close()
    if outcome.scope in ("channel", "none"):
        with amqp.Peer(url) as peer:
            peer.login().open()
            peer.call(1, "queue.delete", queue=unique)
            peer.call(1, "exchange.delete", exchange=unique)
            peer.close()
    return outcome


def steps(case, unique, first, second):
    first.login(
        {"publisher_confirms": True, "authentication_failure_close": True, "consumer_cancel_notify": True}
    ).open()
    second.login().open()
    return walk(case, unique, first, second)


def walk(case, unique, first, second):
    """Goes through the steps of a situation, on two peers that are logged in."""
    for step in case["do"]:
        step = dict(step)
        peer = second if step.pop("on", None) == "other" else first
        name = step.pop("m")
        channel = step.pop("channel", 1)
        confirmed = step.pop("confirmed", False)
        properties = step.pop("properties", {})
        fields = {key: fill(item, unique) for key, item in step.items()}
        if name == "basic.publish":
            exchange, routing_key = fields.pop("exchange", ""), fields.pop("routing_key")
            peer.send(amqp.publish(channel, exchange, routing_key, b"body", property_bytes(properties), **fields))
            awaited = {"basic.ack"} if confirmed else set()
        else:
            peer.method(channel, name, **fields)
            awaited = (
                {f"{name}-ok"}
                if name in amqp.SYNCHRONOUS
                else {"basic.get-ok", "basic.get-empty"}
                if name == "basic.get"
                else set()
            )
        if not awaited:
            # Without an answer of its own, a step is known to be done when the next one is answered.
            channel, awaited = 1, {"basic.qos-ok"}
            peer.method(1, "basic.qos")
        outcome = outcome_of(peer, awaited, channel)
        if outcome:
            return outcome
    return Outcome("none")


def differs(outcome, case, unique):
    """Why an outcome is not the expected one, or None."""
    want = case["expect"]
    text = want.get("text", "").replace("{n}", unique)
    if len(text.encode()) > 255:
        text = text[:252] + "..."
    got = (outcome.scope, outcome.code, outcome.text)
    if got[:2] != (want["scope"], want.get("code", 0)):
        return f"got {got}, expected {(want['scope'], want.get('code', 0), text)}"
    if outcome.text != text and not (want.get("pattern") and re.fullmatch(text, outcome.text)):
        return f"text {outcome.text!r}, expected {text!r}"
    if "ids" in want and tuple(want["ids"]) != tuple(outcome.ids):
        return f"class and method {outcome.ids}, expected {tuple(want['ids'])}"
    return None


if __name__ == "__main__":
    for situation in load(Path(sys.argv[2]) if len(sys.argv) > 2 else ERRORS):
        mark = f"{situation['name']}-{os.getpid()}"
        try:
            print(situation["name"], run(sys.argv[1], situation, mark), sep="\t", flush=True)
        except amqp.Late:
            print(situation["name"], "LATE", sep="\t", flush=True)
