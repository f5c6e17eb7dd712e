"""A relay between clients and a broker that does to messages what no broker may do.

Enters: where the broker is, and one fault.  Leaves: a port; the number of messages that the fault struck.
Owns:   a listener and one thread for each direction of each connection.
Never:  touches anything but whole messages on their way to clients of one name: all else passes byte by byte.
"""

import contextlib
import socket
import struct
import threading

METHOD, HEADER, BODY = 1, 2, 3
DELIVER = struct.pack(">HH", 60, 60)
START_OK = struct.pack(">HH", 10, 11)
# Shutting a socket that is gone already is no fault of the relay.
GONE = (ConnectionError, BrokenPipeError, OSError)


class Relay:
    """`fault` is one of
    none    passes everything on
    drop    message number `at` (counted from 1 on each consumer's connection) does not arrive
    double  it arrives twice
    swap    it arrives after the one that follows it
    damage  its last byte is another one
    shorten its body lacks its last byte
    slow    every message from number `at` waits `wait_s`
    mute    from number `at` nothing arrives any more, and the connection stays open
    cut     there the consumer's connection ends
    """

    def __init__(self, target_port, fault="none", at=1, wait_s=0.0, client=b"bench consumer"):
        self.target_port, self.fault, self.at, self.wait_s = target_port, fault, at, wait_s
        # Part of the name that the connections to be struck give themselves.
        self.name_of_consumers = client
        self.struck = 0
        self.passed = 0
        self.over = threading.Event()
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                broker = socket.create_connection(("127.0.0.1", self.target_port))
            except GONE:
                return
            for end in (client, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets += [client, broker]
            connection = Connection(self, client, broker)
            threading.Thread(target=connection.forth, daemon=True).start()
            threading.Thread(target=connection.back, daemon=True).start()

    def close(self):
        self.over.set()
        for end in [self.listener, *self.sockets]:
            with contextlib.suppress(*GONE):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Connection:
    def __init__(self, relay, client, broker):
        self.relay, self.client, self.broker = relay, client, broker
        self.consumes = False
        self.delivered = 0
        self.held = None

    def forth(self):
        """From the client to the broker, as it is; who the client says it is, is noted on the way."""
        seen = b""
        with contextlib.suppress(*GONE):
            while data := self.client.recv(262144):
                if seen is not None:
                    seen += data
                    if len(seen) >= 19 and seen[15:19] == START_OK:
                        size = struct.unpack(">I", seen[11:15])[0]
                        if len(seen) >= 15 + size:
                            self.consumes = self.relay.name_of_consumers in seen[: 15 + size]
                            seen = None
                self.broker.sendall(data)
        with contextlib.suppress(*GONE):
            self.broker.shutdown(socket.SHUT_WR)

    def back(self):
        """From the broker to the client, frame by frame, messages held together."""
        pending, message, body_left = bytearray(), [], 0
        with contextlib.suppress(*GONE):
            while data := self.broker.recv(262144):
                pending += data
                out, at = bytearray(), 0
                while len(pending) - at >= 8:
                    kind, _, size = struct.unpack_from(">BHI", pending, at)
                    if len(pending) - at < size + 8:
                        break
                    frame = bytes(pending[at : at + size + 8])
                    at += size + 8
                    if not self.consumes or (kind == METHOD and frame[7:11] != DELIVER) or kind > BODY:
                        out += frame
                        continue
                    message.append(frame)
                    if kind == HEADER:
                        body_left = struct.unpack_from(">Q", frame, 11)[0]
                    elif kind == BODY:
                        body_left -= size
                    if kind != METHOD and body_left == 0:
                        self.delivered += 1
                        self.relay.passed += 1
                        if not self.deliver(message, out):
                            self.client.sendall(out)
                            return self.end()
                        message = []
                del pending[:at]
                self.client.sendall(out)
        with contextlib.suppress(*GONE):
            self.client.shutdown(socket.SHUT_WR)

    def deliver(self, message, out):
        """Puts a message into what is sent next, as the fault has it; False: the connection ends here."""
        fault, strikes = self.relay.fault, self.delivered == self.relay.at
        whole = b"".join(message)
        if fault == "slow" and self.delivered >= self.relay.at:
            # What came before it leaves first: it is slow, and not late by the whole batch.
            self.client.sendall(out)
            out.clear()
            self.relay.over.wait(self.relay.wait_s)
            self.relay.struck += 1
        if not strikes or fault in ("none", "slow"):
            out += whole
            if self.held:
                out += self.held
                self.held = None
            return True
        self.relay.struck += 1
        if fault == "double":
            out += whole + whole
        elif fault == "swap":
            self.held = whole
        elif fault == "damage":
            out += whole[:-2] + bytes([whole[-2] ^ 0x55]) + whole[-1:]
        elif fault == "shorten":
            out += shortened(message)
        elif fault == "mute":
            self.client.sendall(out)
            out.clear()
            self.relay.over.wait()
            return False
        elif fault == "cut":
            return False
        return True

    def end(self):
        for end in (self.client, self.broker):
            with contextlib.suppress(*GONE):
                end.shutdown(socket.SHUT_RDWR)


def shortened(message):
    """A message of one body frame without its last byte, with header and frames that fit."""
    method, header, body = message
    size = struct.unpack_from(">Q", header, 11)[0] - 1
    header = header[:11] + struct.pack(">Q", size) + header[19:]
    return method + header + body[:3] + struct.pack(">I", size) + body[7:-2] + body[-1:]


@contextlib.contextmanager
def relay(*arguments, **options):
    made = Relay(*arguments, **options)
    try:
        yield made
    finally:
        made.close()


class Silent:
    """Takes connections, reads, and never says a word; or says `words` and closes."""

    def __init__(self, words=None):
        self.words = words
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ends = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(*GONE):
            while True:
                end, _ = self.listener.accept()
                self.ends.append(end)
                if self.words is not None:
                    end.sendall(self.words)
                    # The client's own words are read first: a close with unread bytes would be a reset.
                    end.settimeout(1)
                    end.recv(8)
                    end.close()

    def close(self):
        for end in [self.listener, *self.ends]:
            with contextlib.suppress(*GONE):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def silent(words=None):
    made = Silent(words)
    try:
        yield made
    finally:
        made.close()
