"""Clients that go wrong once they are logged in: channels, sizes, vanishing, never reading, garbage; and odd but right ones.

Enters: nothing.  Leaves: EXPECTATIONS, by name.
Owns:   its sockets.
Never:  waits without a deadline; takes a broker that hangs for one that refuses.
"""

import random
import socket
import time

from scene import BROKER, CLOSES, URL, bounded, connected, ended, memory_bytes  # first: it says where report.py is
import amqp
import bad_input
from amqp import BODY, HEADER, METHOD, Late, Peer, content_header, frame, method
from report import Skip, equal


def method_on_closed_channel():
    with connected() as peer:
        peer.call(1, "channel.close", reply_code=200)
        peer.method(1, "queue.declare", exclusive=True)
        ended(peer, (504,), "CHANNEL_ERROR - expected 'channel.open'")


def opened(peer, maximum):
    """Channels answer for themselves, in any order."""
    answers = [peer.next_method()[:2] for _ in range(maximum)]
    equal(
        sorted(answers) == [(number, "channel.open-ok") for number in range(1, maximum + 1)],
        True,
        "one open-ok a channel",
    )


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
        equal(
            fields["reply_text"],
            "PRECONDITION_FAILED - message size 134217729 is larger than configured max size 134217728",
        )
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
            peer.send(
                frame(HEADER, 1, content_header(1 << 20))
                + frame(BODY, 1, bytes(100_000))
                + struct_head(BODY, 1, 100_000)
                + bytes(50_000)
            )
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
        ask = (
            frame(METHOD, 1, method("queue.declare", queue="amq.rabbitmq.reply-to", passive=True))
            if BROKER == "rabbitmq"
            else frame(METHOD, 1, method("basic.qos"))
        )
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
        frame(
            METHOD,
            0,
            method(
                "connection.start-ok",
                client_properties={"product": "interop"},
                mechanism="PLAIN",
                response="\0{user}\0{password}",
                locale="en_US",
            ),
        ),
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
    parts[1] = frame(
        METHOD,
        0,
        method(
            "connection.start-ok",
            client_properties={"product": "interop"},
            mechanism="PLAIN",
            response=f"\0{peer.user}\0{peer.password}",
            locale="en_US",
        ),
    )
    parts[3] = frame(METHOD, 0, method("connection.open", virtual_host=peer.vhost))
    return parts


def answers(peer):
    """What the broker says to the conversation (RabbitMQ's consume-ok may come behind the bind-ok)."""
    names = []
    while "basic.deliver" not in names:
        names.append(peer.next_method()[1])
    equal(
        names[:5], ["connection.start", "connection.tune", "connection.open-ok", "channel.open-ok", "queue.declare-ok"]
    )
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
                raise AssertionError(
                    f"seed {seed}: the broker keeps a connection whose client has ended: {bytes(data)!r}"
                ) from error


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


def auto_delete_before_cancel_ok():
    """When cancel-ok comes, an auto-delete queue whose last consumer that was is gone, whichever shard it lived on."""
    still_there = tried = 0
    for _ in range(60):
        with connected() as peer:
            for _ in range(20):
                queue = peer.call(1, "queue.declare", auto_delete=True)["queue"]
                tag = peer.call(1, "basic.consume", queue=queue)["consumer_tag"]
                peer.call(1, "basic.cancel", consumer_tag=tag)
                peer.method(1, "queue.declare", queue=queue, passive=True)
                tried += 1
                if peer.next_method()[1] == "queue.declare-ok":
                    still_there += 1
                    continue
                peer.method(1, "channel.close-ok")
                peer.open()
            peer.close()
    equal(still_there, 0, f"queues still there after cancel-ok, of {tried}")


def flow_pauses_deliveries():
    """Where the broker lets a client stop its deliveries, they stop, and go on; answers go on all the while."""
    if BROKER == "rabbitmq":
        raise Skip("RabbitMQ refuses channel.flow with active=false")
    with connected() as peer, connected() as publisher:
        queue = peer.call(1, "queue.declare", auto_delete=True)["queue"]
        peer.call(1, "basic.consume", queue=queue, no_ack=True)
        equal(peer.call(1, "channel.flow", active=False), {"active": False}, "flow-ok")
        publisher.call(1, "confirm.select")
        publisher.send(amqp.publish(1, "", queue, b"held back"))
        publisher.expect("basic.ack", 1)
        equal(peer.call(1, "queue.declare", queue=queue, passive=True)["message_count"], 1, "waiting")
        equal(peer.call(1, "channel.flow", active=True), {"active": True}, "flow-ok")
        peer.expect("basic.deliver", 1)
        equal(peer.content()[1], b"held back")
        publisher.close()
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


EXPECTATIONS = {
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
    "auto-delete-before-cancel-ok": auto_delete_before_cancel_ok,
    "flow-pauses-deliveries": flow_pauses_deliveries,
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
