"""Answers and constants, shaped as pika's: `channel.queue_declare("").method.queue`."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DeliveryMode(enum.IntEnum):
    Transient = 1
    Persistent = 2


class ExchangeType(str, enum.Enum):
    direct = "direct"
    fanout = "fanout"
    headers = "headers"
    topic = "topic"


@dataclass(frozen=True)
class Answer:
    """An answer of the server. pika wraps a method in a frame; here both are one object."""

    @property
    def method(self):
        return self


@dataclass(frozen=True)
class DeclareOk(Answer):
    queue: str
    message_count: int
    consumer_count: int


@dataclass(frozen=True)
class MessageCount(Answer):
    """Of a queue that was purged or deleted."""

    message_count: int
