"""AMQP 0-9-1 by hand: the least that is needed to say anything, right or wrong, to a broker.

Enters: method names and fields as data.  Leaves: bytes on a socket, and what the broker answered.
Owns:   one socket per Peer.
Never:  corrects what a test asks it to send, waits without a deadline.
"""

import socket
import struct
import time
from urllib.parse import unquote, urlsplit

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE

# name: (class id, method id, fields). A field is "name:type"; adjacent bits share octets.
METHODS = {
    "connection.start": (
        10,
        10,
        "version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr",
    ),
    "connection.start-ok": (10, 11, "client_properties:table mechanism:shortstr response:longstr locale:shortstr"),
    "connection.tune": (10, 30, "channel_max:short frame_max:long heartbeat:short"),
    "connection.tune-ok": (10, 31, "channel_max:short frame_max:long heartbeat:short"),
    "connection.open": (10, 40, "virtual_host:shortstr reserved_1:shortstr reserved_2:bit"),
    "connection.open-ok": (10, 41, "reserved_1:shortstr"),
    "connection.close": (10, 50, "reply_code:short reply_text:shortstr class_id:short method_id:short"),
    "connection.close-ok": (10, 51, ""),
    "connection.blocked": (10, 60, "reason:shortstr"),
    "connection.unblocked": (10, 61, ""),
    "connection.update-secret": (10, 70, "new_secret:longstr reason:shortstr"),
    "connection.update-secret-ok": (10, 71, ""),
    "channel.open": (20, 10, "reserved_1:shortstr"),
    "channel.open-ok": (20, 11, "reserved_1:longstr"),
    "channel.flow": (20, 20, "active:bit"),
    "channel.flow-ok": (20, 21, "active:bit"),
    "channel.close": (20, 40, "reply_code:short reply_text:shortstr class_id:short method_id:short"),
    "channel.close-ok": (20, 41, ""),
    "exchange.declare": (
        40,
        10,
        "reserved_1:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table",
    ),
    "exchange.declare-ok": (40, 11, ""),
    "exchange.delete": (40, 20, "reserved_1:short exchange:shortstr if_unused:bit nowait:bit"),
    "exchange.delete-ok": (40, 21, ""),
    "exchange.bind": (
        40,
        30,
        "reserved_1:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table",
    ),
    "exchange.bind-ok": (40, 31, ""),
    "exchange.unbind": (
        40,
        40,
        "reserved_1:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table",
    ),
    "exchange.unbind-ok": (40, 51, ""),
    "queue.declare": (
        50,
        10,
        "reserved_1:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table",
    ),
    "queue.declare-ok": (50, 11, "queue:shortstr message_count:long consumer_count:long"),
    "queue.bind": (
        50,
        20,
        "reserved_1:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table",
    ),
    "queue.bind-ok": (50, 21, ""),
    "queue.purge": (50, 30, "reserved_1:short queue:shortstr nowait:bit"),
    "queue.purge-ok": (50, 31, "message_count:long"),
    "queue.delete": (50, 40, "reserved_1:short queue:shortstr if_unused:bit if_empty:bit nowait:bit"),
    "queue.delete-ok": (50, 41, "message_count:long"),
    "queue.unbind": (50, 50, "reserved_1:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table"),
    "queue.unbind-ok": (50, 51, ""),
    "basic.qos": (60, 10, "prefetch_size:long prefetch_count:short global:bit"),
    "basic.qos-ok": (60, 11, ""),
    "basic.consume": (
        60,
        20,
        "reserved_1:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table",
    ),
    "basic.consume-ok": (60, 21, "consumer_tag:shortstr"),
    "basic.cancel": (60, 30, "consumer_tag:shortstr nowait:bit"),
    "basic.cancel-ok": (60, 31, "consumer_tag:shortstr"),
    "basic.publish": (60, 40, "reserved_1:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit"),
    "basic.return": (60, 50, "reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr"),
    "basic.deliver": (
        60,
        60,
        "consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr",
    ),
    "basic.get": (60, 70, "reserved_1:short queue:shortstr no_ack:bit"),
    "basic.get-ok": (
        60,
        71,
        "delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long",
    ),
    "basic.get-empty": (60, 72, "reserved_1:shortstr"),
    "basic.ack": (60, 80, "delivery_tag:longlong multiple:bit"),
    "basic.reject": (60, 90, "delivery_tag:longlong requeue:bit"),
    "basic.recover-async": (60, 100, "requeue:bit"),
    "basic.recover": (60, 110, "requeue:bit"),
    "basic.recover-ok": (60, 111, ""),
    "basic.nack": (60, 120, "delivery_tag:longlong multiple:bit requeue:bit"),
    "confirm.select": (85, 10, "nowait:bit"),
    "confirm.select-ok": (85, 11, ""),
    "tx.select": (90, 10, ""),
    "tx.select-ok": (90, 11, ""),
    "tx.commit": (90, 20, ""),
    "tx.commit-ok": (90, 21, ""),
    "tx.rollback": (90, 30, ""),
    "tx.rollback-ok": (90, 31, ""),
}
NAMES = {(c, m): name for name, (c, m, _) in METHODS.items()}
# Methods that the broker answers with a method of its own (unless `nowait`).
SYNCHRONOUS = {name for name in METHODS if f"{name}-ok" in METHODS} - {"basic.get"}


class Raw(bytes):
    """Bytes that stand for an already encoded field (a table with its length, a short string with its length)."""


def short_string(value):
    if isinstance(value, Raw):
        return bytes(value)
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">B", len(data)) + data


def long_string(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">I", len(data)) + data


def field_value(value):
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, bool):
        return b"t" + struct.pack(">B", value)
    if isinstance(value, int):
        return b"I" + struct.pack(">i", value) if -(2**31) <= value < 2**31 else b"l" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"d" + struct.pack(">d", value)
    if isinstance(value, (str, bytes)):
        return b"S" + long_string(value)
    if isinstance(value, dict):
        return b"F" + table(value)
    if isinstance(value, list):
        return b"A" + long_string(b"".join(field_value(item) for item in value))
    if value is None:
        return b"V"
    raise TypeError(f"no field value for {value!r}")


def table(value):
    if isinstance(value, Raw):
        return bytes(value)
    return long_string(b"".join(short_string(name) + field_value(item) for name, item in value.items()))


def method(name, **given):
    """The payload of a method frame; fields not given are zero or empty."""
    class_id, method_id, fields = METHODS[name]
    out = bytearray(struct.pack(">HH", class_id, method_id))
    bits, width = 0, 0
    for field in fields.split():
        field, kind = field.split(":")
        if kind == "bit":
            bits |= bool(given.pop(field, False)) << width
            width += 1
            continue
        if width:
            out += struct.pack(">B", bits)
            bits, width = 0, 0
        value = given.pop(field, None)
        if kind == "shortstr":
            out += short_string("" if value is None else value)
        elif kind == "longstr":
            out += long_string("" if value is None else value)
        elif kind == "table":
            out += table({} if value is None else value)
        else:
            out += struct.pack({"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}[kind], value or 0)
    if width:
        out += struct.pack(">B", bits)
    if given:
        raise TypeError(f"{name} has no {sorted(given)}")
    return bytes(out)


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([FRAME_END])


def content_header(body_bytes, class_id=60, properties=b"\x00\x00"):
    return struct.pack(">HHQ", class_id, 0, body_bytes) + properties


def publish(channel, exchange, routing_key, body, properties=b"\x00\x00", frame_max=131072, **flags):
    """All frames of one message."""
    out = frame(METHOD, channel, method("basic.publish", exchange=exchange, routing_key=routing_key, **flags))
    out += frame(HEADER, channel, content_header(len(body), properties=properties))
    for start in range(0, len(body), frame_max - 8):
        out += frame(BODY, channel, body[start : start + frame_max - 8])
    return out


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if self.at + n > len(self.data):
            raise ValueError("the broker sent a field that ends before its length")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, code):
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def short(self):
        return self.take(self.number("B")).decode("utf-8", "replace")

    def long(self):
        return self.take(self.number("I"))

    def value(self):
        kind = self.take(1).decode()
        simple = {
            "t": "?",
            "b": "b",
            "B": "B",
            "s": "h",
            "u": "H",
            "I": "i",
            "i": "I",
            "l": "q",
            "f": "f",
            "d": "d",
            "T": "Q",
        }
        if kind in simple:
            return self.number(simple[kind])
        if kind == "S":
            return self.long().decode("utf-8", "replace")
        if kind == "x":
            return self.long()
        if kind == "F":
            return Reader(self.long()).entries()
        if kind == "A":
            inner, out = Reader(self.long()), []
            while inner.at < len(inner.data):
                out.append(inner.value())
            return out
        if kind == "D":
            return (self.number("B"), self.number("i"))
        if kind == "V":
            return None
        raise ValueError(f"the broker sent a field of type {kind!r}")

    def entries(self):
        out = {}
        while self.at < len(self.data):
            name = self.short()
            out[name] = self.value()
        return out


def decode(payload):
    """(name, fields) of a method frame's payload."""
    reader = Reader(payload)
    ids = (reader.number("H"), reader.number("H"))
    name = NAMES[ids]
    out, bits, width = {}, 0, 0
    for field in METHODS[name][2].split():
        field, kind = field.split(":")
        if kind == "bit":
            if width == 0:
                bits = reader.number("B")
            out[field] = bool(bits >> width & 1)
            width += 1
            continue
        width = 0
        if kind == "shortstr":
            out[field] = reader.short()
        elif kind == "longstr":
            out[field] = reader.long()
        elif kind == "table":
            out[field] = Reader(reader.long()).entries()
        else:
            out[field] = reader.number({"octet": "B", "short": "H", "long": "I", "longlong": "Q"}[kind])
    if reader.at != len(payload):
        raise ValueError(f"{len(payload) - reader.at} bytes after {name}")
    return name, out


class Gone(Exception):
    """The broker closed the socket."""


class Late(Exception):
    """The broker did not answer within the deadline."""


class Peer:
    """One connection, as low as one likes: a socket until `login`, an AMQP connection after it."""

    def __init__(self, url, deadline_s=10.0):
        parts = urlsplit(url)
        self.user = unquote(parts.username or "guest")
        self.password = unquote(parts.password or "guest")
        self.vhost = unquote(parts.path[1:]) if len(parts.path) > 1 else "/"
        self.deadline_s = deadline_s
        self.socket = socket.create_connection((parts.hostname, parts.port or 5672), timeout=deadline_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.frame_max = 131072
        self.channel_max = 2047

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # Sending.
    def send(self, data):
        """Sends; a broker that has already closed is no error here (what it said is still to be read)."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def method(self, channel, name, **fields):
        self.send(frame(METHOD, channel, method(name, **fields)))

    def vanish(self):
        """Ends the connection with a reset, as a machine that died."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # Receiving.
    def receive(self, n, deadline):
        while len(self.buffer) < n:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Late(f"nothing more within the deadline; so far {bytes(self.buffer[:64])!r}")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(262144)
            except TimeoutError as error:
                raise Late("no answer within the deadline") from error
            except ConnectionResetError as error:
                raise Gone("reset") from error
            if not data:
                raise Gone("closed")
            self.buffer += data
        out = bytes(self.buffer[:n])
        del self.buffer[:n]
        return out

    def next_frame(self, deadline=None):
        deadline = deadline or time.monotonic() + self.deadline_s
        kind, channel, size = struct.unpack(">BHI", self.receive(7, deadline))
        payload = self.receive(size + 1, deadline)
        if payload[-1] != FRAME_END:
            raise ValueError("the broker sent a frame without its end")
        return kind, channel, payload[:-1]

    def next_method(self, deadline=None):
        """(channel, name, fields) of the next method; heartbeats, headers and bodies are passed over."""
        deadline = deadline or time.monotonic() + self.deadline_s
        while True:
            kind, channel, payload = self.next_frame(deadline)
            if kind == METHOD:
                name, fields = decode(payload)
                return channel, name, fields

    def expect(self, name, channel=None):
        """The fields of the next method, which must be this one."""
        got_channel, got, fields = self.next_method()
        if got != name or (channel is not None and got_channel != channel):
            raise AssertionError(f"expected {name} on channel {channel}, got {got} on {got_channel}: {fields}")
        return fields

    def call(self, channel, name, **fields):
        """Sends a synchronous method and returns the fields of its `-ok`."""
        self.method(channel, name, **fields)
        return self.expect(f"{name}-ok", channel)

    def content(self):
        """The body after a deliver, get-ok or return that was just read, and its raw properties."""
        kind, _, payload = self.next_frame()
        assert kind == HEADER, f"a frame of kind {kind} in place of a header"
        size = struct.unpack(">Q", payload[4:12])[0]
        body = b""
        while len(body) < size:
            kind, _, part = self.next_frame()
            assert kind == BODY, f"a frame of kind {kind} within a body"
            body += part
        return payload[12:], body

    def ending(self, deadline_s=None):
        """How the broker ends this connection: ("close", fields) and then the socket, or ("gone", None).

        Answers with close-ok. Raises Late where the broker does not end it."""
        deadline = time.monotonic() + (deadline_s or self.deadline_s)
        try:
            while True:
                _, name, fields = self.next_method(deadline)
                if name == "connection.close":
                    self.method(0, "connection.close-ok")
                    return "close", fields
        except Gone:
            return "gone", None

    # The handshake.
    def greet(self, header=PROTOCOL_HEADER):
        self.send(header)
        return self.expect("connection.start", 0)

    def login(self, capabilities=None, frame_max=None, channel_max=None, heartbeat=0, open_vhost=True):
        start = self.greet()
        properties = {"product": "interop", "capabilities": capabilities or {}}
        self.method(
            0,
            "connection.start-ok",
            client_properties=properties,
            mechanism="PLAIN",
            response=f"\0{self.user}\0{self.password}",
            locale="en_US",
        )
        tune = self.expect("connection.tune", 0)
        self.frame_max = frame_max or tune["frame_max"]
        self.channel_max = channel_max or tune["channel_max"]
        self.method(
            0, "connection.tune-ok", channel_max=self.channel_max, frame_max=self.frame_max, heartbeat=heartbeat
        )
        if open_vhost:
            self.call(0, "connection.open", virtual_host=self.vhost)
        self.server_properties = start["server_properties"]
        self.tune = tune
        return self

    def open(self, channel=1):
        self.call(channel, "channel.open")
        return self

    def close(self):
        """An orderly close; what was still under way to this side is passed over."""
        self.method(0, "connection.close", reply_code=200, reply_text="bye")
        while self.next_method()[1] != "connection.close-ok":
            pass
        self.socket.close()
