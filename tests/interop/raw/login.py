"""Clients that go wrong before they are logged in, or are silent or slow: wrong headers, logins, tunings, handshake timeouts, heartbeats.

Enters: nothing.  Leaves: EXPECTATIONS, by name; all may run at once.
Owns:   a socket each.
Never:  takes longer than SILENT_S_MAX and some seconds.
"""

import time

from scene import CLOSES, URL, ended  # first: it says where report.py is
import amqp
import bad_input
from amqp import METHOD, Gone, Late, Peer, frame, method
from report import equal

GOOD_START = frame(
    METHOD,
    0,
    method(
        "connection.start-ok",
        client_properties={"product": "interop"},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    ),
)


def wrong_header(header):
    with Peer(URL) as peer:
        peer.send(header)
        equal(peer.receive(8, time.monotonic() + 10), amqp.PROTOCOL_HEADER, "the broker's own header")
        try:
            peer.receive(1, time.monotonic() + 10)
        except Gone:
            return
        raise AssertionError("more follows the broker's header")


def start(peer, **fields):
    peer.greet()
    say = {
        "client_properties": {"capabilities": CLOSES},
        "mechanism": "PLAIN",
        "response": f"\0{peer.user}\0{peer.password}",
        "locale": "en_US",
    }
    peer.method(0, "connection.start-ok", **(say | fields))


def login_wrong_password():
    with Peer(URL) as peer:
        start(peer, response=f"\0{peer.user}\0not it")
        ended(
            peer,
            (403,),
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
        )


def login_unknown_user():
    with Peer(URL) as peer:
        start(peer, response="\0nobody\0x")
        ended(
            peer,
            (403,),
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
        )


def login_wrong_password_without_capability():
    with Peer(URL) as peer:
        start(peer, response=f"\0{peer.user}\0not it", client_properties={})
        ended(peer, (bad_input.GONE,))


def login_amqplain():
    with Peer(URL) as peer:
        start(peer, mechanism="AMQPLAIN", response=amqp.table({"LOGIN": peer.user, "PASSWORD": peer.password})[4:])
        peer.expect("connection.tune", 0)


def login_refused(**fields):
    with Peer(URL) as peer:
        start(peer, **fields)
        # RabbitMQ is silent about some of these for as long as its handshake timeout.
        ended(peer, (bad_input.GONE, 403, 501, 502, 503, 504, 530), deadline_s=25)


def login_unknown_vhost():
    with Peer(URL) as peer:
        peer.vhost = "nowhere"
        peer.login(CLOSES, open_vhost=False)
        peer.method(0, "connection.open", virtual_host="nowhere")
        ended(peer, (530,), "NOT_ALLOWED - vhost nowhere not found")


def tune(allowed, **changes):
    """Answers the broker's offer with changed values (a number, or a function of what was offered). `allowed`: None where both are right."""
    with Peer(URL) as peer:
        start(peer)
        offer = peer.expect("connection.tune", 0)
        peer.method(
            0,
            "connection.tune-ok",
            **(offer | {key: change(offer[key]) if callable(change) else change for key, change in changes.items()}),
        )
        peer.method(0, "connection.open", virtual_host=peer.vhost)
        if allowed:
            peer.expect("connection.open-ok", 0)
            return
        try:
            ended(peer, (bad_input.GONE, 501, 502, 503, 530), deadline_s=8)
        except Late:
            if allowed is False:
                raise


def not_logged_in(*frames):
    with Peer(URL) as peer:
        peer.greet()
        peer.send(b"".join(frames))
        ended(peer, (bad_input.GONE, 501, 502, 503, 504, 505, 530), deadline_s=15)


def channel_before_open():
    with Peer(URL) as peer:
        peer.login(CLOSES, open_vhost=False)
        peer.method(1, "channel.open")
        ended(peer, (503, 504, 505))


# Slow and silent clients: all begin at once, and must be closed within a bounded time.
SILENT_S_MAX = 25


def closed_when_silent(begin, every_second=b""):
    with Peer(URL) as peer:
        begin(peer)
        deadline = time.monotonic() + SILENT_S_MAX
        for byte in every_second:
            peer.send(bytes([byte]))
            try:
                peer.receive(1 << 30, min(deadline, time.monotonic() + 1))
            except Late:
                continue
            except Gone:
                return
        try:
            peer.receive(1 << 30, deadline)
        except Gone:
            return


def heartbeats_are_sent():
    """Heartbeat 1: the broker sends one at least every second, and a client that sends them is kept."""
    with Peer(URL) as peer:
        peer.login(CLOSES, heartbeat=1).open()
        beats = 0
        deadline = time.monotonic() + 8
        while beats < 4:
            kind, channel, payload = peer.next_frame(deadline)
            if kind == amqp.HEARTBEAT:
                equal((channel, payload), (0, b""), "heartbeat")
                beats += 1
                peer.send(frame(amqp.HEARTBEAT, 0, b""))
        peer.close()


def heartbeats_are_missed():
    """Heartbeat 1 and a client that falls silent: closed within a few seconds."""
    with Peer(URL) as peer:
        peer.login(CLOSES, heartbeat=1).open()
        ended(peer, (bad_input.GONE, 320, 541), deadline_s=8)


EXPECTATIONS = {
    "header-http": lambda: wrong_header(b"GET / HTTP/1.1\r\n\r\n"),
    "header-amqp-1.0": lambda: wrong_header(b"AMQP\x00\x01\x00\x00"),
    "header-amqp-0-10": lambda: wrong_header(b"AMQP\x01\x01\x00\x0a"),
    "login-wrong-password": login_wrong_password,
    "login-unknown-user": login_unknown_user,
    "login-wrong-password-without-capability": login_wrong_password_without_capability,
    "login-amqplain": login_amqplain,
    "login-unknown-mechanism": lambda: login_refused(mechanism="NOPE"),
    "login-garbage-response": lambda: login_refused(response=b"\xff\xfe garbage"),
    "login-amqplain-garbage": lambda: login_refused(mechanism="AMQPLAIN", response=b"\x05LOGINS\xff\xff\xff\xff"),
    "login-unknown-vhost": login_unknown_vhost,
    "login-response-of-100-kB": lambda: login_refused(response=b"x" * 100_000),
    "tune-frame-max-4095": lambda: tune(False, frame_max=4095),
    "tune-frame-max-4096": lambda: tune(True, frame_max=4096),
    "tune-frame-max-above": lambda: tune(False, frame_max=lambda offered: offered + 1),
    "tune-frame-max-zero": lambda: tune(None, frame_max=0),
    "tune-channel-max-above": lambda: tune(False, channel_max=lambda offered: offered + 1),
    "tune-channel-max-zero": lambda: tune(None, channel_max=0),
    "not-logged-in-channel-open": lambda: not_logged_in(frame(METHOD, 1, method("channel.open"))),
    "not-logged-in-queue-declare": lambda: not_logged_in(frame(METHOD, 0, method("queue.declare"))),
    "not-logged-in-tune-ok": lambda: not_logged_in(frame(METHOD, 0, method("connection.tune-ok"))),
    "not-logged-in-garbage": lambda: not_logged_in(b"\xff" * 64),
    "not-logged-in-frame-of-1-GiB": lambda: not_logged_in(b"\x01\x00\x00\x40\x00\x00\x00" + bytes(100)),
    "channel-before-connection-open": channel_before_open,
    "silent-from-the-start": lambda: closed_when_silent(lambda peer: None),
    "silent-after-half-a-header": lambda: closed_when_silent(lambda peer: peer.send(b"AMQP")),
    "silent-after-header": lambda: closed_when_silent(lambda peer: peer.greet()),
    "silent-after-half-a-frame": lambda: closed_when_silent(lambda peer: (peer.greet(), peer.send(GOOD_START[:40]))),
    "silent-after-start-ok": lambda: closed_when_silent(start),
    "silent-before-connection-open": lambda: closed_when_silent(lambda peer: peer.login(CLOSES, open_vhost=False)),
    "header-a-byte-a-second": lambda: closed_when_silent(lambda peer: None, amqp.PROTOCOL_HEADER + GOOD_START),
    "start-ok-a-byte-a-second": lambda: closed_when_silent(lambda peer: peer.greet(), GOOD_START),
    "heartbeats-are-sent": heartbeats_are_sent,
    "heartbeats-are-missed": heartbeats_are_missed,
}
