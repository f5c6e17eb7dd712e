"""Harrier's client for Python: AMQP 0-9-1 over TCP, TLS and RDMA, in pika's words.

    import harrier

    with harrier.BlockingConnection(harrier.URLParameters("amqp://guest:guest@localhost/%2F")) as connection:
        channel = connection.channel()
        channel.queue_declare("hello")
        channel.basic_publish("", "hello", b"Hello World!")
"""

from . import exceptions
from ._harrier import BasicProperties, Block, Body, Delivery
from .channel import BlockingChannel
from .connection import BlockingConnection
from .parameters import ConnectionParameters, ExternalCredentials, PlainCredentials, TLSOptions, URLParameters
from .spec import DeliveryMode, ExchangeType

__all__ = [
    "BasicProperties",
    "Block",
    "BlockingChannel",
    "BlockingConnection",
    "Body",
    "ConnectionParameters",
    "Delivery",
    "DeliveryMode",
    "ExchangeType",
    "ExternalCredentials",
    "PlainCredentials",
    "TLSOptions",
    "URLParameters",
    "exceptions",
]
