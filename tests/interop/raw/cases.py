"""errors.toml and arguments.toml, run over a bare socket.

Enters: the situations of these files.  Leaves: for each, what the broker answered: code, scope, text, ids; or that all went well.
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

FOLDER = Path(__file__).resolve().parent.parent
ERRORS, ARGUMENTS = FOLDER / "errors.toml", FOLDER / "arguments.toml"

# Field types that TOML has no value for: {short = 5} is a 16-bit integer. Plain integers go as 32 bits, or 64 where they need them.
FIELD_TYPES = {
    "byte": ("b", ">b"),
    "unsignedbyte": ("B", ">B"),
    "short": ("s", ">h"),
    "unsignedshort": ("u", ">H"),
    "unsignedint": ("i", ">I"),
    "long": ("l", ">q"),
    "float": ("f", ">f"),
    "timestamp": ("T", ">Q"),
}
# The bit and the form of each property; the others are of no interest here.
PROPERTIES = {
    "headers": (13, "table"),
    "delivery_mode": (12, "octet"),
    "priority": (11, "octet"),
    "reply_to": (9, "text"),
    "expiration": (8, "text"),
    "user_id": (4, "text"),
}


@dataclass
class Outcome:
    """`scope` is channel, connection, gone (a socket closed without a word) or none (everything was answered)."""

    scope: str
    code: int = 0
    text: str = ""
    ids: tuple = (0, 0)


def load(*paths):
    """The situations of these files, or of both."""
    return [case for path in paths or (ERRORS, ARGUMENTS) for case in tomllib.loads(Path(path).read_text())["case"]]


def fill(value, name):
    """Puts the situation's own name in place of {n}, and field types where the data asks for one."""
    if isinstance(value, str):
        return value.replace("{n}", name)
    if isinstance(value, list):
        return [fill(item, name) for item in value]
    if isinstance(value, dict):
        return typed(value) or {key: fill(item, name) for key, item in value.items()}
    return value


def typed(value):
    """A value whose type the data names, encoded; None if it is a table."""
    if len(value) != 1:
        return None
    ((kind, content),) = value.items()
    if kind in FIELD_TYPES:
        tag, form = FIELD_TYPES[kind]
        return amqp.Raw(tag.encode() + struct.pack(form, content))
    if kind == "decimal":
        return amqp.Raw(b"D" + struct.pack(">BI", *content))
    if kind == "binary":
        return amqp.Raw(b"x" + amqp.long_string(content))
    if kind == "void":
        return amqp.Raw(b"V")
    return None


def property_bytes(properties):
    flags, out = 0, b""
    for key in sorted(properties, key=lambda key: -PROPERTIES[key][0]):
        bit, form = PROPERTIES[key]
        flags |= 1 << bit
        value = properties[key]
        out += (
            amqp.table(value) if form == "table" else bytes([value]) if form == "octet" else amqp.short_string(value)
        )
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
        alone = step.pop("alone", False)
        properties = step.pop("properties", {})
        fields = {key: fill(item, unique) for key, item in step.items()}
        if name == "basic.publish":
            exchange, routing_key = fields.pop("exchange", ""), fields.pop("routing_key")
            encoded = property_bytes(fill(properties, unique))
            peer.send(amqp.publish(channel, exchange, routing_key, b"body", encoded, **fields))
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
        if not awaited and not alone:
            # Without an answer of its own, a step is known to be done when the next one is answered.
            channel, awaited = channel or 1, {"basic.qos-ok"}
            peer.method(channel, "basic.qos")
        outcome = outcome_of(peer, awaited, channel)
        if outcome:
            return outcome
    return Outcome("none")


def of_harrier(case):
    """What Harrier should say."""
    own = case.get("harrier", {})
    return {"scope": "none"} if own.get("scope") == "none" else case["expect"] | own


def judged(outcome, case, unique, broker):
    """Why an outcome is not what this broker should say, or None. A broker that is neither of ours may do as either."""
    own = case | {"expect": of_harrier(case)}
    if broker == "harrier":
        return differs(outcome, own, unique)
    difference = differs(outcome, case, unique)
    return difference and (difference if broker == "rabbitmq" else differs(outcome, own, unique))


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
    for situation in load(*sys.argv[2:]):
        mark = f"{situation['name']}-{os.getpid()}"
        try:
            print(situation["name"], run(sys.argv[1], situation, mark), sep="\t", flush=True)
        except amqp.Late:
            print(situation["name"], "LATE", sep="\t", flush=True)
