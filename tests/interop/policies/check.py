"""Policies: what queues and exchanges do by them, beside their arguments.

Enters: AMQP_URL, whose user is the operator; the policies of ../accounts.toml.  Leaves: a line for each promise (see report.py).
Owns:   one connection a promise, closed in the end; its queues and exchanges, whose names say which policy is over them.
Never:  passes a broker that does not have these policies: then every promise is skipped, with the reason.
"""

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "raw")]

import amqp
from report import Report, Skip, equal

URL = os.environ["AMQP_URL"]
PATIENCE_S = 10
report = Report()


def own(name):
    """A queue's or exchange's name that no other run has."""
    return f"policy.{name}.{os.getpid()}"


def declare(peer, name, **arguments):
    peer.call(1, "queue.declare", queue=own(name), arguments=arguments)
    return own(name)


def count(peer, queue):
    return peer.call(1, "queue.declare", queue=queue, passive=True)["message_count"]


def await_count(peer, queue, messages):
    deadline = time.monotonic() + PATIENCE_S
    while (found := count(peer, queue)) != messages:
        if time.monotonic() > deadline:
            raise AssertionError(f"{found} messages in {queue}, never {messages}")


def fill(peer, queue, messages=9):
    """Publishes with confirms; answers how many stay, and how many were refused."""
    peer.call(1, "confirm.select")
    for number in range(messages):
        peer.send(amqp.publish(1, "", queue, b"%d" % number))
    waiting, refused = set(range(1, messages + 1)), 0
    while waiting:
        _, name, fields = peer.next_method()
        tag = fields["delivery_tag"]
        settled = {one for one in waiting if one == tag or (fields["multiple"] and one < tag)}
        waiting -= settled
        refused += len(settled) if name == "basic.nack" else 0
    return count(peer, queue), refused


class Operator(amqp.Peer):
    """The operator's connection with channel 1; what it made is deleted in the end."""

    def __enter__(self):
        self.made = []
        self.login({"publisher_confirms": True}).open()
        return self

    def __exit__(self, *failed):
        if not any(failed):
            for kind in ("queue", "exchange"):
                for name in self.made:
                    self.call(1, f"{kind}.delete", **{kind: name})
            self.close()
        super().__exit__(*failed)

    def call(self, channel, name, **fields):
        if name in ("queue.declare", "exchange.declare") and not fields.get("passive"):
            self.made.append(fields[name.split(".")[0]])
        return super().call(channel, name, **fields)


def message_ttl():
    with Operator(URL) as peer:
        under, beside = declare(peer, "ttl"), declare(peer, "none")
        for queue in (beside, under):
            peer.send(amqp.publish(1, "", queue, b"x"))
        await_count(peer, under, 0)
        equal(count(peer, beside), 1, "without a policy")


def expires():
    with Operator(URL) as peer:
        queue = declare(peer, "expires")
        deadline = time.monotonic() + PATIENCE_S
        # Looking at it by a passive declaration would be a use; so would binding it. A publish is none.
        peer.send(amqp.publish(1, "", queue, b"x"))
        while time.monotonic() < deadline:
            peer.send(amqp.publish(1, "", queue, b"x", mandatory=True))
            peer.method(1, "basic.qos")
            returned = False
            while (answer := peer.next_method()[1]) != "basic.qos-ok":
                returned |= answer == "basic.return"
            if returned:
                peer.made.clear()
                return
        raise AssertionError("the queue never went")


def equivalence():
    """A policy is no argument: declaring again asks for what was declared."""
    with Operator(URL) as peer:
        queue = declare(peer, "ttl-again")
        declare(peer, "ttl-again")
        peer.method(1, "queue.declare", queue=queue, arguments={"x-message-ttl": 150})
        text = peer.expect("channel.close", 1)["reply_text"]
        equal(
            text,
            f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost '/': received the "
            "value '150' of type 'signedint' but current is none",
        )
        peer.method(1, "channel.close-ok")
        peer.open()


def lengths(name, expect, **arguments):
    def body():
        with Operator(URL) as peer:
            equal(fill(peer, declare(peer, name, **arguments)), expect)

    return body


def dead_letters(name, **arguments):
    """What has no room goes where the policy and the arguments say together."""

    def body():
        with Operator(URL) as peer:
            dead = "policy.dead"
            peer.call(1, "queue.declare", queue=dead)
            queue = declare(peer, name, **arguments)
            fill(peer, queue, 3)
            await_count(peer, dead, 2)
            equal(count(peer, queue), 1)

    return body


def alternate():
    with Operator(URL) as peer:
        lost, elsewhere = declare(peer, "lost"), declare(peer, "elsewhere")
        for exchange, queue in (("policy.rest", lost), ("policy.other-rest", elsewhere)):
            peer.call(1, "exchange.declare", exchange=exchange, type="fanout")
            peer.call(1, "queue.bind", queue=queue, exchange=exchange)
        by_policy, by_argument = own("alternate.policy"), own("alternate.argument")
        peer.call(1, "exchange.declare", exchange=by_policy, type="direct")
        peer.call(1, "exchange.declare", exchange=by_policy, type="direct")
        other = {"alternate-exchange": "policy.other-rest"}
        peer.call(1, "exchange.declare", exchange=by_argument, type="direct", arguments=other)
        for exchange in (by_policy, by_argument):
            peer.send(amqp.publish(1, exchange, "nowhere", b"x"))
            peer.send(amqp.publish(1, exchange, "nowhere", b"x"))
        await_count(peer, lost, 2)
        await_count(peer, elsewhere, 2)


PROMISES = {
    "message-ttl": message_ttl,
    "expires": expires,
    "equivalence": equivalence,
    "max-length": lengths("length", (5, 0)),
    "lesser-argument": lengths("length.lesser", (3, 0), **{"x-max-length": 3}),
    "greater-argument": lengths("length.greater", (5, 0), **{"x-max-length": 7}),
    "max-length-bytes": lengths("bytes", (4, 0)),
    "priority": lengths("priority", (2, 0)),
    "anywhere-in-the-name": lengths("a-middle-b", (1, 0)),
    "overflow": lengths("overflow", (2, 7)),
    "overflow-argument": lengths("overflow.argument", (2, 0), **{"x-overflow": "drop-head"}),
    "operator": lengths("operator", (4, 0)),
    "operator-greater": lengths("operator.policy-less", (3, 0)),
    "operator-and-argument": lengths("operator.argument", (2, 0), **{"x-max-length": 2}),
    "of-another-queue-type": lengths("quorum", (6, 0)),
    "for-exchanges": lengths("exchanges", (9, 0)),
    "dead-letters": dead_letters("letters"),
    "dead-letters-by-both": dead_letters("letters-key", **{"x-dead-letter-exchange": ""}),
    "alternate-exchange": alternate,
}


def known():
    """Whether this broker has the policies."""
    with Operator(URL) as peer:
        return fill(peer, declare(peer, "length.known"))[0] == 5


def main():
    here = known()
    if not here and os.environ.get("AMQP_BROKER") in ("harrier", "rabbitmq"):
        raise SystemExit("this broker was started without the policies of accounts.toml")

    def if_known(body):
        if not here:
            raise Skip("the broker does not have the policies of accounts.toml")
        body()

    for name, body in PROMISES.items():
        report.check(f"policy {name}", if_known, body)
    report.exit()


main()
