"""What no client library would send, after a proper login: bytes, and the reply codes they deserve.

Enters: nothing.  Leaves: CASES, each with the bytes to send on a connection with channel 1 open, and how that must end.
Owns:   the list.
Never:  talks to a broker (see `check.py`).
"""

import struct
from dataclasses import dataclass

import amqp
from amqp import BODY, HEADER, HEARTBEAT, METHOD, Raw, frame, method


FINE = 0  # all is well, the connection goes on
GONE = -1  # the socket is closed without a word

# Why RabbitMQ 3.10.8 answers otherwise than the rest of the world would.
READER_DIES = "its reader process dies of it: the socket is reset, or 541, and the log has a stack trace"
NOT_READ = "what it has not read may reset the socket before the client has seen the refusal"
NOT_YET = "it does not notice before the next frame, and then takes that for the offence"
NO_DEPTH = "it has no limit on the depth of tables; Harrier's is 128"


@dataclass
class Case:
    """`codes`: the right answers (FINE, GONE or reply codes), with their `text`. `rabbitmq`: its own where it differs, and `why`."""

    name: str
    send: bytes
    codes: tuple
    scope: str = "connection"
    text: str | None = None
    rabbitmq: tuple = ()
    why: str = ""


def nested_table(depth):
    """A table within a table within …, with its length."""
    inner = b""
    for _ in range(depth):
        inner = amqp.short_string("k") + b"F" + struct.pack(">I", len(inner)) + inner
    return Raw(struct.pack(">I", len(inner)) + inner)


def nested_list(depth):
    inner = b""
    for _ in range(depth):
        inner = b"A" + struct.pack(">I", len(inner)) + inner
    inner = amqp.short_string("k") + inner
    return Raw(struct.pack(">I", len(inner)) + inner)


def declare(arguments=None, name="", **flags):
    return method("queue.declare", queue=name, exclusive=True, arguments=arguments or {}, **flags)


def headers_property(raw_table):
    """The properties of a content header that has headers alone."""
    return struct.pack(">H", 1 << 13) + bytes(raw_table)


def one_field(kind_and_value):
    return Raw(amqp.long_string(amqp.short_string("k") + kind_and_value))


PUBLISH = frame(METHOD, 1, method("basic.publish", routing_key="nowhere"))
GOOD = frame(METHOD, 1, declare())

CASES = [
    # Frames.
    Case(
        "end-byte-wrong",
        GOOD[:-1] + b"\x00",
        (501,),
        text="FRAME_ERROR - type 1, all octets = <<0,50,0,10,0,0,0,4,0,0,0,0>>: {invalid_frame_end_marker,0}",
    ),
    Case(
        "frame-above-maximum",
        struct.pack(">BHI", METHOD, 1, 131072 - 7) + bytes(131072 - 7) + b"\xce",
        (501,),
        text="FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,131065,131064}",
        rabbitmq=(501, GONE),
        why=NOT_READ,
    ),
    Case(
        "frame-of-4-GiB",
        struct.pack(">BHI", BODY, 1, 0xFFFFFFFF) + bytes(4096),
        (501,),
        text="FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4294967295,131064}",
    ),
    Case(
        "frame-of-unknown-kind",
        frame(7, 1, b"abc"),
        (501,),
        text="FRAME_ERROR - type 7, all octets = <<\"abc\">>: unknown_frame",
    ),
    Case("frame-of-kind-zero", frame(0, 1, b""), (501,), text="FRAME_ERROR - type 0, all octets = <<>>: unknown_frame"),
    Case(
        "heartbeat-on-channel-1",
        frame(HEARTBEAT, 1, b""),
        (505,),
        text="UNEXPECTED_FRAME - type 8, all octets = <<>>",
    ),
    Case(
        "heartbeat-with-payload",
        frame(HEARTBEAT, 0, b"abc"),
        (501,),
        text="FRAME_ERROR - type 8, all octets = <<\"abc\">>: unknown_frame",
    ),
    Case(
        "protocol-header-again",
        amqp.PROTOCOL_HEADER,
        (501,),
        text="FRAME_ERROR - type 65, all octets = <<>>: {frame_too_large,1342177289,131064}",
    ),
    Case(
        "text-in-place-of-frames",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        (501,),
        text="FRAME_ERROR - type 71, all octets = <<>>: {frame_too_large,539959368,131064}",
    ),
    # Methods.
    Case(
        "unknown-class",
        frame(METHOD, 1, struct.pack(">HH", 999, 10)),
        (540,),
        text="NOT_IMPLEMENTED - unknown method (999,10)",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "unknown-method",
        frame(METHOD, 1, struct.pack(">HH", 50, 99)),
        (540,),
        text="NOT_IMPLEMENTED - unknown method (50,99)",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "unknown-class-on-channel-zero",
        frame(METHOD, 0, struct.pack(">HH", 999, 10)),
        (540,),
        text="NOT_IMPLEMENTED - unknown method (999,10)",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "method-without-ids",
        frame(METHOD, 1, b"\x00\x32"),
        (501,),
        text="FRAME_ERROR - type 1, all octets = <<0,50>>: unknown_frame",
    ),
    Case("method-empty", frame(METHOD, 1, b""), (501,), text="FRAME_ERROR - type 1, all octets = <<>>: unknown_frame"),
    Case("method-cut-short", frame(METHOD, 1, declare()[:-6]), (501,), text="FRAME_ERROR - cannot decode <<0,0>>"),
    Case(
        "method-with-bytes-after-it",
        frame(METHOD, 1, declare() + b"more"),
        (501,),
        text="FRAME_ERROR - cannot decode <<0,0,0,4,0,0,0,0,109,111,114,101>>",
    ),
    Case(
        "close-cut-short",
        frame(METHOD, 1, method("channel.close", reply_code=200)[:-3]),
        (501,),
        text="FRAME_ERROR - cannot decode <<0,200,0,0>>",
    ),
    # Content.
    Case(
        "header-without-method",
        frame(HEADER, 1, amqp.content_header(3)),
        (505,),
        text="UNEXPECTED_FRAME - expected method frame, got non method frame instead",
    ),
    Case(
        "body-without-method",
        frame(BODY, 1, b"abc"),
        (505,),
        text="UNEXPECTED_FRAME - expected method frame, got non method frame instead",
    ),
    Case(
        "body-without-header",
        PUBLISH + frame(BODY, 1, b"abc"),
        (505,),
        text="UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
    ),
    Case(
        "method-within-content",
        PUBLISH + frame(HEADER, 1, amqp.content_header(3)) + GOOD,
        (505,),
        text="UNEXPECTED_FRAME - expected content body, got non content body frame instead",
    ),
    Case(
        "method-in-place-of-header",
        PUBLISH + GOOD,
        (505,),
        text="UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
    ),
    Case(
        "header-within-body",
        PUBLISH
        + frame(HEADER, 1, amqp.content_header(6))
        + frame(BODY, 1, b"abc")
        + frame(HEADER, 1, amqp.content_header(6)),
        (505,),
        text="UNEXPECTED_FRAME - expected content body, got non content body frame instead",
    ),
    Case(
        "header-of-another-class",
        PUBLISH + frame(HEADER, 1, amqp.content_header(3, class_id=50)),
        (505,),
        text="UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
    ),
    Case(
        "header-cut-short",
        PUBLISH + frame(HEADER, 1, amqp.content_header(3)[:9]),
        (501,),
        text="FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0,0,0,0>>: unknown_frame",
    ),
    Case(
        "header-property-cut-short",
        PUBLISH + frame(HEADER, 1, amqp.content_header(0, properties=b"\x80\x00\x20ab")),
        (502,),
        text="SYNTAX_ERROR - malformed properties of a content header: a field reaches past its end",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "header-flags-without-end",
        PUBLISH + frame(HEADER, 1, amqp.content_header(0, properties=b"\x00\x01\x00\x01")),
        (502,),
        text="SYNTAX_ERROR - malformed properties of a content header: unknown property in flags 0x0001",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "body-longer-than-announced",
        PUBLISH + frame(HEADER, 1, amqp.content_header(3)) + frame(BODY, 1, b"abcdef"),
        (501,),
        text="FRAME_ERROR - content body frame exceeds remaining content size",
        rabbitmq=(505,),
        why=NOT_YET,
    ),
    Case(
        "body-after-empty-body",
        PUBLISH + frame(HEADER, 1, amqp.content_header(0)) + frame(BODY, 1, b"abc"),
        (505,),
        text="UNEXPECTED_FRAME - expected method frame, got non method frame instead",
    ),
    Case(
        "content-on-channel-zero",
        frame(HEADER, 0, amqp.content_header(3)),
        (505,),
        text="UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,3,0,0>>",
    ),
    Case(
        "publish-on-channel-zero",
        frame(METHOD, 0, method("basic.publish", routing_key="a")),
        (504,),
        text="CHANNEL_ERROR - unexpected method in connection state running",
    ),
    # Tables.
    Case(
        "table-1000-deep",
        frame(METHOD, 1, declare(nested_table(1000))),
        (502,),
        text="SYNTAX_ERROR - tables nested deeper than 128",
        rabbitmq=(FINE,),
        why=NO_DEPTH,
    ),
    Case(
        "table-10000-deep",
        frame(METHOD, 1, declare(nested_table(10000))),
        (502,),
        text="SYNTAX_ERROR - tables nested deeper than 128",
        rabbitmq=(FINE,),
        why=NO_DEPTH,
    ),
    Case(
        "list-1000-deep",
        frame(METHOD, 1, declare(nested_list(1000))),
        (502,),
        text="SYNTAX_ERROR - tables nested deeper than 128",
        rabbitmq=(FINE,),
        why=NO_DEPTH,
    ),
    Case(
        "table-1000-deep-in-headers",
        PUBLISH + frame(HEADER, 1, amqp.content_header(0, properties=headers_property(nested_table(1000)))),
        (502,),
        text="SYNTAX_ERROR - malformed properties of a content header: tables nested deeper than 128",
        rabbitmq=(FINE,),
        why=NO_DEPTH,
    ),
    Case(
        "table-longer-than-frame",
        frame(METHOD, 1, declare(Raw(struct.pack(">I", 1 << 30)))),
        (501,),
        text="FRAME_ERROR - cannot decode <<0,0,0,4,64,0,0,0>>",
    ),
    Case(
        "table-of-unknown-field-type",
        frame(METHOD, 1, declare(one_field(b"Z\x00\x00\x00\x00"))),
        (502,),
        text="SYNTAX_ERROR - unknown field type 0x5a",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "table-of-unknown-field-type-in-headers",
        PUBLISH + frame(HEADER, 1, amqp.content_header(0, properties=headers_property(one_field(b"Z\x00")))),
        (502,),
        text="SYNTAX_ERROR - malformed properties of a content header: unknown field type 0x5a",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "table-value-cut-short",
        frame(METHOD, 1, declare(one_field(b"l\x00\x00"))),
        (501,),
        text="FRAME_ERROR - cannot decode <<0,0,0,4,0,0,0,5,1,107,108,0,0>>",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "table-string-longer-than-table",
        frame(METHOD, 1, declare(one_field(b"S\x7f\xff\xff\xffabc"))),
        (501,),
        text="FRAME_ERROR - cannot decode <<0,0,0,4,0,0,0,10,1,107,83,127,255,255,255,97,98,99>>",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    Case(
        "table-name-longer-than-table",
        frame(METHOD, 1, declare(Raw(amqp.long_string(b"\xffabc")))),
        (501,),
        text="FRAME_ERROR - cannot decode <<0,0,0,4,0,0,0,4,255,97,98,99>>",
        rabbitmq=(GONE, 541),
        why=READER_DIES,
    ),
    # Names.
    Case("name-of-255-bytes", frame(METHOD, 1, declare(name="n" * 255)), (FINE,)),
    Case("name-of-256-bytes", frame(METHOD, 1, declare(name=Raw(b"\xff" + b"n" * 256))), (501,)),
    Case(
        "name-not-utf-8",
        frame(METHOD, 1, declare(name=b"\xff\xfe\xfd")),
        (501,),
        text="FRAME_ERROR - Malformed UTF-8 in shortstr",
    ),
    Case(
        "exchange-name-not-utf-8",
        frame(METHOD, 1, method("exchange.declare", exchange=b"\xff\xfe\xfd", type="direct", auto_delete=True)),
        (501,),
        text="FRAME_ERROR - Malformed UTF-8 in shortstr",
    ),
    Case(
        "exchange-type-not-utf-8",
        frame(METHOD, 1, method("exchange.declare", exchange="x", type=b"\xff\xfe\xfd")),
        (501,),
        text="FRAME_ERROR - Malformed UTF-8 in shortstr",
    ),
    Case(
        "missing-name-of-255-bytes",
        frame(METHOD, 1, method("queue.declare", queue="n" * 254 + "m", passive=True)),
        (404,),
        "channel",
    ),
    Case(
        "routing-key-not-utf-8",
        PUBLISH.replace(b"nowhere", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9") + frame(HEADER, 1, amqp.content_header(0)),
        (FINE,),
    ),
    Case("queue-name-with-line-ends", frame(METHOD, 1, declare(name="a\r\nb")), (FINE,)),
]
