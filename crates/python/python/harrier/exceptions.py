"""What goes wrong, by pika's names.

A close of the server carries its reply code and text; a refused or returned publish, the messages.
"""

from __future__ import annotations

from typing import Any


class AMQPError(Exception):
    """Every exception of this package that is not one of Python's own."""


class AMQPConnectionError(AMQPError):
    """There is no connection, or no longer."""


class ConnectError(AMQPConnectionError):
    """No connection could be made."""


class ConnectionOpenAborted(AMQPConnectionError):
    """The connection was closed while it was opened."""


class StreamLostError(AMQPConnectionError):
    """The connection broke without a close."""


class WithReply(AMQPError):
    """The server's reply code and text."""

    def __init__(self, reply_code: int, reply_text: str) -> None:
        super().__init__(reply_code, reply_text)
        self.reply_code = reply_code
        self.reply_text = reply_text

    def __str__(self) -> str:
        return f"({self.reply_code}) {self.reply_text!r}"


class AuthenticationError(AMQPConnectionError):
    """The login was refused."""


class ProbableAuthenticationError(WithReply, AuthenticationError):
    """The login was refused; the reply has the reason."""


class ProbableAccessDeniedError(WithReply, AMQPConnectionError):
    """The virtual host does not exist, or the user may not enter it."""


class NoFreeChannels(AMQPConnectionError):
    """As many channels are open as were agreed on."""


class ConnectionWrongStateError(AMQPConnectionError):
    """The connection is closed, or in the middle of another call."""


class WrongThreadError(ConnectionWrongStateError):
    """The connection belongs to another thread."""


class ConnectionForkedError(ConnectionWrongStateError):
    """The connection belongs to the process of which this is a fork."""


class ConnectionClosed(WithReply, AMQPConnectionError):
    """The connection was closed in order."""


class ConnectionClosedByBroker(ConnectionClosed):
    """The server closed the connection."""


class ConnectionClosedByClient(ConnectionClosed):
    """This program closed the connection."""


class AMQPHeartbeatTimeout(AMQPConnectionError):
    """The server was silent for too long."""


class AnswerTimeout(AMQPConnectionError, TimeoutError):
    """No answer, or no room to send, in time."""


class TooManyDeliveries(AMQPConnectionError):
    """More was delivered during a call than is kept: set a prefetch count."""


class MethodNotImplemented(AMQPError):
    """The server does not offer what was asked for."""


class AMQPChannelError(AMQPError):
    """Something is wrong with a channel; the connection goes on."""


class ChannelWrongStateError(AMQPChannelError):
    """The channel is closed."""


class ChannelClosed(WithReply, AMQPChannelError):
    """The channel was closed in order."""

    def __init__(self, reply_code: int, reply_text: str, channel_number: int = 0) -> None:
        super().__init__(reply_code, reply_text)
        self.channel_number = channel_number


class ChannelClosedByBroker(ChannelClosed):
    """The server closed the channel."""


class ChannelClosedByClient(ChannelClosed):
    """This program closed the channel."""


class DuplicateConsumerTag(AMQPChannelError):
    """There is such a consumer on the channel."""

    def __init__(self, consumer_tag: str) -> None:
        super().__init__(consumer_tag)
        self.consumer_tag = consumer_tag


class ConsumerCancelled(AMQPChannelError):
    """The server ended the consumer: its queue is gone."""


class WithMessages(AMQPError):
    """Messages that did not arrive."""

    def __init__(self, messages: list[Any]) -> None:
        super().__init__(messages)
        self.messages = messages

    def __str__(self) -> str:
        return f"{len(self.messages)} messages"


class UnroutableError(WithMessages):
    """No queue took these messages, which the server returned."""


class MessageReturned(WithReply):
    """Why a message came back: what kombu's `on_return` is given."""


class NackError(WithMessages):
    """The server refused these messages: their delivery tags, or the messages that came back."""


class ProtocolSyntaxError(AMQPError):
    """The server broke the protocol."""


class UnexpectedFrameError(ProtocolSyntaxError):
    """The server sent what does not belong here."""


class UnsupportedAMQPFieldException(ProtocolSyntaxError):
    """A value of this type cannot be in a table."""


class ShortStringTooLong(AMQPError):
    """A name or a short property of more than 255 bytes."""


class FallbackWarning(UserWarning):
    """The connection is by TCP, since there is no RDMA."""
