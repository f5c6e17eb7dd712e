"""Users other than guest: what each may do, where, and in which words the broker refuses the rest.

Enters: AMQP_URL, whose user is the operator; rules.toml; the users of ../accounts.toml.  Leaves: a line for each rule (see report.py).
Owns:   two connections a rule, closed in the end; what they declared is deleted.
Never:  passes a broker that does not know these users: then every rule is skipped, with the reason.
"""

import os
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "raw")]

import amqp
import cases
from report import Report, Skip, equal

URL = os.environ["AMQP_URL"]
CAPABILITIES = {"publisher_confirms": True, "authentication_failure_close": True, "consumer_cancel_notify": True}
report = Report()


def url_of(user, vhost, password=None):
    at = urlsplit(URL)
    return f"amqp://{quote(user)}:{quote(password or user)}@{at.hostname}:{at.port or 5672}/{quote(vhost, safe='')}"


def operator(vhost):
    at = urlsplit(URL)
    return url_of(at.username or "guest", vhost, at.password or "guest")


def logged_in(user, vhost, password=None):
    """A peer that has opened its virtual host, or how the broker ended it."""
    peer = amqp.Peer(url_of(user, vhost, password))
    if password:
        peer.greet()
        say = {"client_properties": {"capabilities": CAPABILITIES}, "mechanism": "PLAIN", "locale": "en_US"}
        peer.method(0, "connection.start-ok", response=f"\0{user}\0{password}", **say)
        return peer, cases.outcome_of(peer, {"connection.tune"}, 0)
    peer.login(CAPABILITIES, open_vhost=False)
    peer.method(0, "connection.open", virtual_host=vhost)
    return peer, cases.outcome_of(peer, {"connection.open-ok"}, 0)


def named(case, unique):
    """The queues and exchanges that a rule may leave behind."""
    for kind in ("queue", "exchange"):
        yield kind, {cases.fill(step[kind], unique) for step in case["do"] if "{n}" in step.get(kind, "")}


def carry_out(case, unique):
    vhost = case.get("vhost", "/")
    peer, outcome = logged_in(case["user"], vhost, case.get("password"))
    with peer:
        if outcome or "password" in case:
            return outcome or cases.Outcome("none")
        if case.get("open", True):
            peer.open()
        # The operator works in the first virtual host, whichever the user is in.
        with amqp.Peer(operator("/")) as second:
            second.login(CAPABILITIES).open()
            outcome = cases.walk(case, unique, peer, second)
            second.close()
        if outcome.scope in ("channel", "none"):
            peer.close()
    left_behind = [(kind, names) for kind, names in named(case, unique) if names]
    for left in {"/", vhost} if left_behind else set():
        with amqp.Peer(operator(left)) as peer:
            peer.login().open()
            for kind, names in left_behind:
                for name in names:
                    if not name.startswith("amq.") or kind == "queue":
                        peer.call(1, f"{kind}.delete", **{kind: name})
            peer.close()
    return outcome


def rule(case):
    unique = f"{case['name']}-{os.getpid()}"
    difference = cases.differs(carry_out(case, unique), case, unique)
    if difference:
        raise AssertionError(difference)


def neighbours_unharmed():
    """A refusal closes its own channel; another on the same connection goes on."""
    peer, outcome = logged_in("alice", "/")
    with peer:
        equal(outcome, None)
        peer.open(1).open(2)
        name = f"alice.neighbour-{os.getpid()}"
        peer.call(2, "queue.declare", queue=name, exclusive=True)
        peer.method(1, "queue.declare", queue="not-alices")
        equal(peer.expect("channel.close", 1)["reply_code"], 403)
        peer.method(1, "channel.close-ok")
        peer.call(2, "queue.purge", queue=name)
        peer.open(1)
        peer.call(1, "queue.purge", queue=name)
        peer.close()


def known():
    """Whether this broker has the users."""
    with amqp.Peer(url_of("guard", "/")) as peer:
        try:
            peer.login(CAPABILITIES)
        except (amqp.Gone, AssertionError):
            return False
        peer.close()
    return True


def main():
    here = known()
    if not here and os.environ.get("AMQP_BROKER") in ("harrier", "rabbitmq"):
        raise SystemExit("this broker was started without the users of accounts.toml")

    def if_known(body, *arguments):
        if not here:
            raise Skip("the broker does not have the users of accounts.toml")
        body(*arguments)

    for case in cases.load(HERE / "rules.toml"):
        report.check(f"rule {case['name']}", if_known, rule, case)
    report.check("neighbours-unharmed", if_known, neighbours_unharmed)
    report.exit()


def show():
    """What a broker really answers: to write rules.toml from."""
    for case in cases.load(sys.argv[1]):
        print(case["name"], carry_out(case, f"{case['name']}-{os.getpid()}"), sep="\t", flush=True)


if len(sys.argv) > 1:
    show()
else:
    main()
