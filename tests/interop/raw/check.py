"""Bad input over bare sockets, with a well-behaved pika client beside it that must notice nothing.

Enters: AMQP_URL, AMQP_BROKER (rabbitmq, harrier or other), BROKER_PID (optional, to watch its memory).
Leaves: a line for each expectation (see report.py).
Owns:   its sockets and the neighbour process.
Never:  waits without a deadline; takes a broker that hangs for one that refuses.
"""

import os
import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import amqp
import bad_input
import cases
from amqp import BODY, HEADER, METHOD, Gone, Late, Peer, content_header, frame, method
from report import Report, equal

URL = os.environ["AMQP_URL"]
BROKER = os.environ.get("AMQP_BROKER", "other")
NEIGHBOUR_MS_MAX = 3000
CLOSES = {"authentication_failure_close": True, "publisher_confirms": True}
report = Report()


class Neighbour:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("neighbour.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        equal(self.process.stdout.readline().strip(), "ready", "neighbour")

    def undisturbed(self):
        """Asks for its rounds since the last question: it must be alive, and never have waited long."""
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if not answer:
            raise AssertionError(f"the well-behaved client beside it ended with {self.process.wait(10)}")
        if int(answer[1]) > NEIGHBOUR_MS_MAX:
            raise AssertionError(f"the well-behaved client beside it once waited {answer[1]} ms")

    def end(self):
        self.process.stdin.close()
        return self.process.wait(20)


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


def bad_bytes(case):
    with connected() as peer:
        peer.send(case.send)
        code, scope, text = answered(peer)
        codes = case.rabbitmq if BROKER == "rabbitmq" and case.rabbitmq else case.codes
        if code not in codes or (code > 0 and scope != case.scope):
            raise AssertionError(f"got {code} {scope} {text!r}, expected {codes} {case.scope}")
        if len(text.encode()) > 255:
            raise AssertionError(f"a reply text of {len(text.encode())} bytes")
        if scope == "connection" and code > 0:
            # After close and close-ok the socket must end.
            peer.ending(10)


def situation(case):
    unique = f"{case['name']}-{os.getpid()}"
    outcome = cases.run(URL, case, unique)
    difference = cases.differs(outcome, case, unique)
    if difference and BROKER != "rabbitmq" and "harrier" in case:
        difference = cases.differs(outcome, case | {"expect": case["expect"] | case["harrier"]}, unique)
    if difference:
        raise AssertionError(difference)


# Before the login is complete.
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
    say = {"client_properties": {"capabilities": CLOSES}, "mechanism": "PLAIN", "response": f"\0{peer.user}\0{peer.password}", "locale": "en_US"}
    peer.method(0, "connection.start-ok", **(say | fields))


def login_wrong_password():
    with Peer(URL) as peer:
        start(peer, response=f"\0{peer.user}\0not it")
        ended(peer, (403,), "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.")


def login_unknown_user():
    with Peer(URL) as peer:
        start(peer, response="\0nobody\0x")
        ended(peer, (403,), "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.")


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
        peer.method(0, "connection.tune-ok", **(offer | {key: change(offer[key]) if callable(change) else change for key, change in changes.items()}))
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


# Within a connection.
def method_on_closed_channel():
    with connected() as peer:
        peer.call(1, "channel.close", reply_code=200)
        peer.method(1, "queue.declare", exclusive=True)
        ended(peer, (504,), "CHANNEL_ERROR - expected 'channel.open'")


def opened(peer, maximum):
    """Channels answer for themselves, in any order."""
    answers = [peer.next_method()[:2] for _ in range(maximum)]
    equal(sorted(answers) == [(number, "channel.open-ok") for number in range(1, maximum + 1)], True, "one open-ok a channel")


def channels_to_the_maximum():
    with Peer(URL) as peer:
        peer.login(CLOSES)
        for number in range(1, peer.channel_max + 1):
            peer.method(number, "channel.open")
        opened(peer, peer.channel_max)
        peer.call(peer.channel_max, "queue.declare", exclusive=True)
        peer.close()


def channels_65536():
    """Every channel number there is: past the maximum the connection must be closed, and the others stay cheap."""
    before = memory_bytes()
    with Peer(URL) as peer:
        peer.login(CLOSES)
        maximum = peer.channel_max
        peer.send(b"".join(frame(METHOD, number, method("channel.open")) for number in range(1, maximum + 1)))
        opened(peer, maximum)
        peer.send(b"".join(frame(METHOD, number, method("channel.open")) for number in range(maximum + 1, 65536)))
        ended(peer, (530, 504, bad_input.GONE))
    bounded(before, 128 << 20)


def bounded(before, more_bytes_max):
    if before is None or BROKER == "rabbitmq":
        return
    now = memory_bytes()
    if now > before + more_bytes_max:
        raise AssertionError(f"the broker's memory went from {before >> 20} to {now >> 20} MiB")


def channel_maximum_negotiated():
    with Peer(URL) as peer:
        peer.login(CLOSES, channel_max=10)
        for number in range(1, 11):
            peer.open(number)
        peer.method(11, "channel.open")
        ended(peer, (530, 504))


def frame_maximum_negotiated():
    """With frame_max 4096 no frame from the broker may be larger, and a larger one is refused."""
    with Peer(URL) as peer:
        peer.login(CLOSES, frame_max=4096).open()
        queue = peer.call(1, "queue.declare", exclusive=True)["queue"]
        body = random.Random(1).randbytes(100_000)
        peer.send(amqp.publish(1, "", queue, body, frame_max=4096))
        peer.method(1, "basic.consume", queue=queue, no_ack=True)
        got = b""
        while len(got) < len(body):
            kind, _, payload = peer.next_frame()
            if len(payload) + 8 > 4096:
                raise AssertionError(f"a frame of {len(payload) + 8} bytes")
            if kind == BODY:
                got += payload
        equal(got == body, True, "the body is the same")
        peer.send(frame(BODY, 1, bytes(4200)))
        ended(peer, (501,))


def body_announced_huge():
    """A header that promises the world must not make the broker set memory aside."""
    before = memory_bytes()
    peers = [connected() for _ in range(40)]
    for peer in peers:
        peer.method(1, "basic.publish", routing_key="nowhere")
        peer.send(frame(HEADER, 1, content_header(120 << 20)) + frame(BODY, 1, bytes(4096)))
        # The answer to what comes behind shows that it was read.
        peer.method(2, "channel.open")
    for peer in peers:
        peer.expect("channel.open-ok", 2)
    bounded(before, 256 << 20)
    for peer in peers:
        peer.vanish()


def body_of_2_to_63_announced():
    with connected() as peer:
        peer.method(1, "basic.publish", routing_key="nowhere")
        peer.send(frame(HEADER, 1, content_header(1 << 63)) + frame(BODY, 1, bytes(4096)))
        peer.method(2, "channel.open")
        _, name, fields = peer.next_method()
        if name == "channel.close" or name == "connection.close":
            equal(fields["reply_code"] in (406, 311, 501), True, f"{fields}")
        else:
            equal(name, "channel.open-ok")


def body_above_maximum():
    size = (128 << 20) + 1
    with connected() as peer:
        peer.method(1, "basic.publish", routing_key="nowhere")
        peer.send(frame(HEADER, 1, content_header(size)))
        part = frame(BODY, 1, bytes(131064))
        peer.socket.settimeout(30)
        for _ in range(size // 131064):
            peer.send(part)
        peer.send(frame(BODY, 1, bytes(size % 131064)))
        fields = peer.expect("channel.close", 1)
        equal(fields["reply_code"], 406)
        equal(fields["reply_text"], "PRECONDITION_FAILED - message size 134217729 is larger than configured max size 134217728")
        peer.method(1, "channel.close-ok")
        peer.open(2)
        peer.close()


def vanishes_within_body(vanish):
    with connected() as watcher:
        queue = watcher.call(1, "queue.declare", exclusive=False, auto_delete=True)["queue"]
        watcher.call(1, "basic.consume", queue=queue, no_ack=True)
        for _ in range(20):
            peer = connected()
            peer.method(1, "basic.publish", routing_key=queue)
            peer.send(frame(HEADER, 1, content_header(1 << 20)) + frame(BODY, 1, bytes(100_000)) + struct_head(BODY, 1, 100_000) + bytes(50_000))
            vanish(peer)
        # What follows must be the first and only message that arrives.
        watcher.send(amqp.publish(1, "", queue, b"after"))
        watcher.expect("basic.deliver", 1)
        equal(watcher.content()[1], b"after")
        watcher.close()


def struct_head(kind, channel, size):
    return frame(kind, channel, bytes(size))[:3] + size.to_bytes(4, "big")


def never_reads():
    """Consumes everything, reads nothing: its queue may grow, nobody else waits."""
    silent = connected()
    queue = silent.call(1, "queue.declare", exclusive=False, auto_delete=True)["queue"]
    silent.call(1, "basic.consume", queue=queue, no_ack=True)
    with connected() as publisher:
        publisher.call(1, "confirm.select")
        publisher.socket.settimeout(30)
        body = bytes(65536)
        for _ in range(512):
            publisher.send(amqp.publish(1, "", queue, body))
        confirmed = 0
        while confirmed < 512:
            confirmed = publisher.expect("basic.ack", 1)["delivery_tag"]
        publisher.close()
    silent.vanish()


def never_reads_replies():
    """Asks without end and reads no answer: it must be throttled or dropped, and cost a bounded amount of memory."""
    before = memory_bytes()
    with Peer(URL) as peer:
        peer.login(CLOSES).open()
        peer.socket.settimeout(2)
        ask = frame(METHOD, 1, method("queue.declare", queue="amq.rabbitmq.reply-to", passive=True)) if BROKER == "rabbitmq" else frame(METHOD, 1, method("basic.qos"))
        deadline = time.monotonic() + 4
        try:
            while time.monotonic() < deadline:
                peer.socket.sendall(ask * 2000)
        except (TimeoutError, ConnectionError):
            pass  # throttled or dropped: both are right
        bounded(before, 256 << 20)
        peer.vanish()


def conversation():
    """A valid conversation in bytes; its first nine parts are answered up to a delivery, the last two close."""
    return [
        amqp.PROTOCOL_HEADER,
        frame(METHOD, 0, method("connection.start-ok", client_properties={"product": "interop"}, mechanism="PLAIN", response="\0{user}\0{password}", locale="en_US")),
        frame(METHOD, 0, method("connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0)),
        frame(METHOD, 0, method("connection.open", virtual_host="/")),
        frame(METHOD, 1, method("channel.open")),
        frame(METHOD, 1, method("queue.declare", exclusive=True)),
        frame(METHOD, 1, method("basic.consume", no_ack=True)),
        frame(METHOD, 1, method("queue.bind", exchange="amq.direct", routing_key="conversation")),
        amqp.publish(1, "amq.direct", "conversation", b"body " * 50, b"\x10\x00\x02"),
        frame(METHOD, 1, method("channel.close", reply_code=200)),
        frame(METHOD, 0, method("connection.close", reply_code=200)),
    ]


def own(parts, peer):
    """The conversation with this peer's name and password."""
    parts = list(parts)
    parts[1] = frame(METHOD, 0, method("connection.start-ok", client_properties={"product": "interop"}, mechanism="PLAIN", response=f"\0{peer.user}\0{peer.password}", locale="en_US"))
    parts[3] = frame(METHOD, 0, method("connection.open", virtual_host=peer.vhost))
    return parts


def answers(peer):
    """What the broker says to the conversation (RabbitMQ's consume-ok may come behind the bind-ok)."""
    names = []
    while "basic.deliver" not in names:
        names.append(peer.next_method()[1])
    equal(names[:5], ["connection.start", "connection.tune", "connection.open-ok", "channel.open-ok", "queue.declare-ok"])
    equal(sorted(names[5:]), ["basic.consume-ok", "basic.deliver", "queue.bind-ok"])
    equal(peer.content()[1], b"body " * 50)


def one_byte_at_a_time():
    with Peer(URL) as peer:
        *parts, close_channel, close = own(conversation(), peer)
        for part in parts:
            for at in range(len(part)):
                peer.send(part[at : at + 1])
        answers(peer)
        for part in (close_channel, close):
            for at in range(len(part)):
                peer.send(part[at : at + 1])
            peer.next_method()


def all_in_one_packet():
    """A client may send before it has read, from the first byte to the last."""
    with Peer(URL) as peer:
        peer.send(b"".join(own(conversation(), peer)[:-2]))
        answers(peer)


def cut_anywhere(step):
    with Peer(URL) as peer:
        size = len(b"".join(own(conversation(), peer)))
    for end in range(0, size, step):
        with Peer(URL) as peer:
            peer.send(b"".join(own(conversation(), peer))[:end])
            if end % 2:
                peer.vanish()


def garbage(seed):
    """Random bytes, and valid frames with random bytes changed: refused or ignored, never a hang, never the end of the broker."""
    chance = random.Random(seed)
    for _ in range(60):
        with connected() as peer:
            if chance.random() < 0.3:
                data = chance.randbytes(chance.randint(1, 400))
            else:
                data = bytearray(b"".join(conversation()[4:-1]))
                for _ in range(chance.randint(1, 4)):
                    data[chance.randrange(len(data))] = chance.randrange(256)
            peer.send(bytes(data))
            try:
                peer.socket.shutdown(socket.SHUT_WR)
                peer.ending(10)
            except OSError:
                continue  # the broker has already reset it
            except ValueError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            except Late as error:
                raise AssertionError(f"seed {seed}: the broker keeps a connection whose client has ended: {bytes(data)!r}") from error


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


def tcp_half_close():
    """A client that ends its sending half still gets its answers, or a close: never silence."""
    with connected() as peer:
        peer.method(1, "queue.declare", exclusive=True)
        peer.socket.shutdown(socket.SHUT_WR)
        peer.ending(10)


def close_is_answered_after_error():
    """After connection.close from the broker, anything but close-ok is ignored, and the socket ends."""
    with connected() as peer:
        peer.method(1, "basic.qos", prefetch_size=1)
        fields = peer.expect("connection.close", 0)
        equal(fields["reply_code"], 540)
        peer.method(1, "queue.declare", exclusive=True)
        peer.method(0, "connection.close-ok")
        equal(peer.ending(10)[0], "gone")


def channel_error_then_more():
    """What was sent behind the mistake on that channel is dropped; other channels and the number itself go on."""
    with connected() as peer:
        peer.open(2)
        peer.method(1, "queue.declare", queue="missing", passive=True)
        peer.method(1, "basic.qos")
        peer.send(amqp.publish(1, "", "nowhere", b"abc"))
        peer.method(2, "basic.qos")
        said = dict(peer.next_method()[1:] for _ in range(2))
        equal(sorted(said), ["basic.qos-ok", "channel.close"])
        equal(said["channel.close"]["reply_code"], 404)
        peer.method(1, "channel.close-ok")
        peer.open(1)
        peer.call(1, "basic.qos")
        peer.close()


def answers_before_deliveries():
    """consume-ok and recover-ok come before the deliveries they cause (lapin drops what comes before recover-ok); after cancel-ok none comes."""
    with connected() as peer:
        queue = peer.call(1, "queue.declare", exclusive=True)["queue"]
        peer.send(amqp.publish(1, "", queue, b"0") + amqp.publish(1, "", queue, b"1"))
        tag = peer.call(1, "basic.consume", queue=queue)["consumer_tag"]
        names = [peer.next_method()[1] for _ in range(2)]
        peer.method(1, "basic.recover", requeue=True)
        names += [peer.next_method()[1] for _ in range(3)]
        equal(names, ["basic.deliver", "basic.deliver", "basic.recover-ok", "basic.deliver", "basic.deliver"])
        peer.call(1, "basic.cancel", consumer_tag=tag)
        peer.send(amqp.publish(1, "", queue, b"2"))
        while peer.call(1, "queue.declare", queue=queue, passive=True)["message_count"] != 1:
            pass
        peer.close()


def empty_body_frames():
    """Empty body frames within a body are odd but whole."""
    with connected() as peer:
        queue = peer.call(1, "queue.declare", exclusive=True)["queue"]
        peer.call(1, "basic.consume", queue=queue, no_ack=True)
        peer.method(1, "basic.publish", routing_key=queue)
        peer.send(frame(HEADER, 1, content_header(6)))
        for part in (b"abc", b"", b"def"):
            peer.send(frame(BODY, 1, part))
        peer.expect("basic.deliver", 1)
        equal(peer.content()[1], b"abcdef")
        peer.close()


def interleaved_channels():
    """Contents of two channels, their frames interleaved, come out whole."""
    with connected() as peer:
        peer.open(2)
        queue = peer.call(1, "queue.declare", exclusive=True)["queue"]
        peer.call(1, "basic.consume", queue=queue, no_ack=True)
        bodies = {1: b"a" * 40_000, 2: b"b" * 40_000}
        for channel in bodies:
            peer.method(channel, "basic.publish", routing_key=queue)
        for channel, body in bodies.items():
            peer.send(frame(HEADER, channel, content_header(len(body))))
        for at in range(0, 40_000, 10_000):
            for channel, body in bodies.items():
                peer.send(frame(BODY, channel, body[at : at + 10_000]))
        got = set()
        for _ in bodies:
            peer.expect("basic.deliver", 1)
            got.add(peer.content()[1])
        equal(got == set(bodies.values()), True, "both bodies whole")
        peer.close()


BEFORE_LOGIN = {
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
GOOD_START = frame(METHOD, 0, method("connection.start-ok", client_properties={"product": "interop"}, mechanism="PLAIN", response="\0guest\0guest", locale="en_US"))

WITHIN = {
    "method-on-a-closed-channel": method_on_closed_channel,
    "channel-error-then-more": channel_error_then_more,
    "close-is-answered-after-error": close_is_answered_after_error,
    "channels-to-the-maximum": channels_to_the_maximum,
    "channel-maximum-negotiated": channel_maximum_negotiated,
    "channels-65536": channels_65536,
    "frame-maximum-negotiated": frame_maximum_negotiated,
    "body-announced-huge": body_announced_huge,
    "body-of-2-to-63-announced": body_of_2_to_63_announced,
    "body-above-maximum": body_above_maximum,
    "answers-before-deliveries": answers_before_deliveries,
    "body-in-empty-frames": empty_body_frames,
    "bodies-interleaved": interleaved_channels,
    "vanishes-within-body-reset": lambda: vanishes_within_body(Peer.vanish),
    "vanishes-within-body-closed": lambda: vanishes_within_body(lambda peer: peer.socket.close()),
    "never-reads-deliveries": never_reads,
    "never-reads-replies": never_reads_replies,
    "tcp-half-close": tcp_half_close,
    "one-byte-at-a-time": one_byte_at_a_time,
    "all-in-one-packet": all_in_one_packet,
    "cut-anywhere": lambda: cut_anywhere(5),
    "garbage": lambda: [garbage(seed) for seed in range(1, 6)],
}


def main():
    neighbour = Neighbour()

    def beside(body, *arguments):
        body(*arguments)
        neighbour.undisturbed()

    # The slow ones wait, all together, while the others run.
    with ThreadPoolExecutor(len(BEFORE_LOGIN)) as pool:
        waiting = {name: pool.submit(body) for name, body in BEFORE_LOGIN.items() if not report.only or f"bad {name}" in report.only}
        for case in cases.load():
            report.check(f"error {case['name']}", situation, case)
        for case in bad_input.CASES:
            report.check(f"bad {case.name}", beside, bad_bytes, case)
        for name, body in WITHIN.items():
            report.check(f"bad {name}", beside, body)
        for name, future in waiting.items():
            report.check(f"bad {name}", beside, future.result, 60)
    report.check("bad neighbour-to-the-end", lambda: equal(neighbour.end(), 0, "the well-behaved client's exit"))
    report.exit()


main()
