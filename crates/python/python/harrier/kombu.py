"""A transport for kombu, and so for Celery: `harrier://`, `harrier+tls://` and `harrier+rdma://`.

Importing this module makes the three schemes known to kombu. What an address may say behind the `?` is as of `amqp://`,
`amqps://` and `amqp+rdma://`; `transport_options` may say it, too, and `confirm_publish`.
"""

from __future__ import annotations

import collections
import importlib.metadata
import socket
import time
from typing import Any, Callable
from urllib.parse import quote, unquote, urlencode

import kombu.transport
from kombu.transport import base
from kombu.utils.amq_manager import get_manager

from . import exceptions
from ._harrier import BasicProperties
from .connection import BATCH, connect
from .parameters import URLParameters

#: kombu's scheme, as it is left when kombu has cut the transport off, and the client's.
SCHEMES = {"harrier": "amqp", "tls": "amqps", "rdma": "amqp+rdma"}
#: Of `transport_options`: those that belong into an address.
IN_ADDRESS = ("via", "fallback", "cacertfile", "certfile", "keyfile", "server_name_indication", "auth_mechanism")
PROPERTIES = (
    "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
    "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip

QueueDeclareOk = collections.namedtuple("QueueDeclareOk", ("queue", "message_count", "consumer_count"))


class Message(base.Message):
    """A delivery as kombu has it."""

    def __init__(self, delivery, channel=None, **more: Any) -> None:
        found = delivery.properties
        named = {name: getattr(found, name) for name in PROPERTIES}
        properties = {name: value for name, value in named.items() if value is not None}
        if found.headers is not None:
            properties["application_headers"] = found.headers
        super().__init__(
            body=delivery.body,
            channel=channel,
            delivery_tag=delivery.delivery_tag,
            content_type=properties.get("content_type"),
            content_encoding=properties.get("content_encoding"),
            delivery_info={
                "consumer_tag": delivery.consumer_tag or None,
                "delivery_tag": delivery.delivery_tag,
                "redelivered": delivery.redelivered,
                "exchange": delivery.exchange,
                "routing_key": delivery.routing_key,
            },
            properties=properties,
            headers=found.headers or {},
            **more,
        )


class Channel(base.StdChannel):
    """A channel in the words of py-amqp, which are kombu's."""

    Message = Message

    def __init__(self, connection: DrainedConnection) -> None:
        self.connection = connection
        # kombu is not annotated: what its classes begin with would be the type.
        self.no_ack_consumers: set[str] = set()  # type: ignore[assignment]
        self.events: dict[str, set[Callable[..., Any]]] = {"basic_return": set()}
        self.is_open = True
        self._core = connection._core
        self._handle = connection._core.open_channel()
        self.channel_id = self._handle.number
        self._consumers: dict[str, tuple[Callable[[Any], Any], Callable[[str], Any] | None]] = {}
        self._is_confirming = False
        if connection.confirm_publish:
            self.confirm_select()

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(self._handle, *arguments)
        except exceptions.ChannelClosed as error:
            self.connection._channel_closed(error.channel_number)
            raise

    def close(self, *_: Any, **__: Any) -> None:
        if not self.is_open:
            return
        self.connection._channel_closed(self.channel_id)
        self._core.close_channel(self._handle)

    def _ended(self) -> None:
        self.is_open = False
        self._consumers.clear()
        self.no_ack_consumers.clear()

    def exchange_declare(
        self, exchange, type, passive=False, durable=False, auto_delete=True, nowait=False, arguments=None, internal=False
    ):
        self._call(
            self._core.declare_exchange, exchange, type, bool(passive), bool(durable), bool(auto_delete), internal, arguments
        )

    def exchange_delete(self, exchange, if_unused=False, nowait=False):
        self._call(self._core.delete_exchange, exchange, bool(if_unused))

    def exchange_bind(self, destination, source="", routing_key="", nowait=False, arguments=None):
        self._call(self._core.bind_exchange, True, destination, source, routing_key or "", arguments)

    def exchange_unbind(self, destination, source="", routing_key="", nowait=False, arguments=None):
        self._call(self._core.bind_exchange, False, destination, source, routing_key or "", arguments)

    def queue_declare(
        self, queue="", passive=False, durable=False, exclusive=False, auto_delete=True, nowait=False, arguments=None
    ):
        declared = self._call(
            self._core.declare_queue,
            queue or "",
            bool(passive),
            bool(durable),
            bool(exclusive),
            bool(auto_delete),
            arguments,
        )
        return QueueDeclareOk(*declared)

    def queue_bind(self, queue, exchange="", routing_key="", nowait=False, arguments=None):
        self._call(self._core.bind_queue, True, queue, exchange, routing_key or "", arguments)

    def queue_unbind(self, queue, exchange, routing_key="", nowait=False, arguments=None):
        self._call(self._core.bind_queue, False, queue, exchange, routing_key or "", arguments)

    def queue_purge(self, queue="", nowait=False):
        return self._call(self._core.purge_queue, queue)

    def queue_delete(self, queue="", if_unused=False, if_empty=False, nowait=False):
        return self._call(self._core.delete_queue, queue, bool(if_unused), bool(if_empty))

    def basic_qos(self, prefetch_size, prefetch_count, a_global=False):
        self._call(self._core.qos, prefetch_count, bool(a_global))

    def basic_consume(
        self,
        queue="",
        consumer_tag="",
        no_local=False,
        no_ack=False,
        exclusive=False,
        nowait=False,
        callback=None,
        arguments=None,
        on_cancel=None,
    ):
        tag = self._call(self._core.consume, queue, str(consumer_tag or ""), bool(no_ack), bool(exclusive), arguments)
        self._consumers[tag] = (callback, on_cancel)
        if no_ack:
            self.no_ack_consumers.add(tag)
        return tag

    def basic_cancel(self, consumer_tag, nowait=False):
        self._call(self._core.cancel, str(consumer_tag))
        self._forget(str(consumer_tag))

    def _forget(self, tag: str) -> tuple[Any, Any] | None:
        self.no_ack_consumers.discard(tag)
        return self._consumers.pop(tag, None)

    def _cancelled_by_server(self, tag: str) -> None:
        known = self._forget(tag)
        if known is None:
            return
        if known[1] is None:
            raise exceptions.ConsumerCancelled(tag)
        known[1](tag)

    def _deliver(self, delivery) -> None:
        known = self._consumers.get(delivery.consumer_tag)
        if known is not None:
            known[0](delivery)
        elif delivery.delivery_tag:
            # It was on its way when its consumer was cancelled.
            self.basic_reject(delivery.delivery_tag, requeue=True)

    def basic_get(self, queue="", no_ack=False):
        return self._call(self._core.get, queue, bool(no_ack))

    def basic_ack(self, delivery_tag, multiple=False):
        self._call(self._core.ack, delivery_tag, bool(multiple), True)

    def basic_reject(self, delivery_tag, requeue=False):
        self._call(self._core.reject, delivery_tag, bool(requeue), True)

    def basic_recover(self, requeue=False):
        self._call(self._core.recover, bool(requeue))

    def flow(self, active):
        """Clients of RabbitMQ stopped asking for this long ago; prefetch counts do the same."""
        raise exceptions.MethodNotImplemented("channel.flow")

    def confirm_select(self, nowait=False):
        self._call(self._core.confirm_select)
        self._is_confirming = True

    def prepare_message(
        self, body, priority=None, content_type=None, content_encoding=None, headers=None, properties=None
    ):
        named = {name: value for name, value in (properties or {}).items() if name in PROPERTIES}
        named.setdefault("priority", priority)
        return body, BasicProperties(
            content_type=content_type, content_encoding=content_encoding, headers=headers or None, **named
        )

    def prepare_queue_arguments(self, arguments, **more):
        return base.to_rabbitmq_queue_arguments(arguments, **more)

    def message_to_python(self, raw_message):
        return self.Message(raw_message, channel=self)

    def basic_publish(
        self,
        message,
        exchange="",
        routing_key="",
        mandatory=False,
        immediate=False,
        timeout=None,
        confirm_timeout=None,
        argsig=None,
    ):
        body, properties = message
        self._call(self._core.publish, exchange, routing_key or "", body, properties, bool(mandatory), True)
        if self._is_confirming:
            self._call(self._core.wait_confirms, 0)
            refused = self._call(self._core.take_refused)
            if refused:
                raise exceptions.NackError(refused)
        self.connection._route_returned()

    def _came_back(self, returned) -> None:
        error = exceptions.MessageReturned(returned.reply_code, returned.reply_text)
        for callback in self.events["basic_return"]:
            callback(error, returned.exchange, returned.routing_key, self.message_to_python(returned))


class DrainedConnection:
    """A connection with the few words that kombu has for one."""

    def __init__(self, parameters: URLParameters, client: Any, confirm_publish: bool) -> None:
        self._core = connect(parameters)
        self._pending: collections.deque[Any] = collections.deque()
        self.client = client
        self.confirm_publish = confirm_publish
        self.channels: dict[int, Channel] = {}
        self.server_properties = self._core.server_properties()
        self.heartbeat = self._core.tuning()[2]

    @property
    def connected(self) -> bool:
        """Also not for another thread, nor for a fork: kombu connects anew there."""
        return self._core.is_usable()

    def fileno(self) -> int:
        return self._core.fileno()

    def channel(self) -> Channel:
        channel = Channel(self)
        self.channels[channel.channel_id] = channel
        return channel

    def close(self) -> None:
        self._forget_channels()
        if self._core.is_usable():
            self._core.close()

    def collect(self) -> None:
        """Drops it without a word."""
        self._forget_channels()
        self.client = None
        if self._core.is_usable():
            self._core.drop_client()

    def heartbeat_tick(self, rate: int = 2) -> None:
        """Takes what has come, which sends a heartbeat if one is due and notices a server that is silent."""
        self._pending.extend(self._core.take(BATCH, 0.0))

    def drain_events(self, timeout: float | None = None) -> None:
        """Calls back for what has come; waits for it if there is nothing. Raises `socket.timeout` if nothing comes."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if not self._pending:
                left = 5.0 if deadline is None else max(0.0, deadline - time.monotonic())
                try:
                    self._pending.extend(self._core.take(BATCH, left))
                except exceptions.ChannelClosed as error:
                    self._channel_closed(error.channel_number)
                    raise
            is_busy = self._route_returned()
            for number, tag in self._core.take_cancelled():
                is_busy = True
                if channel := self.channels.get(number):
                    channel._cancelled_by_server(tag)
            if self._pending:
                # One at a time, as of py-amqp: the caller may want no more after it.
                delivery = self._pending.popleft()
                if channel := self.channels.get(delivery.channel_number):
                    channel._deliver(delivery)
                return
            if is_busy:
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise socket.timeout("nothing has come")

    def _route_returned(self) -> bool:
        returned = self._core.take_returned()
        for message in returned:
            if channel := self.channels.get(message.channel_number):
                channel._came_back(message)
        return bool(returned)

    def _channel_closed(self, number: int) -> None:
        if channel := self.channels.pop(number, None):
            channel._ended()

    def _forget_channels(self) -> None:
        for number in list(self.channels):
            self._channel_closed(number)


class Transport(base.Transport):
    """`harrier://user:password@host:port/vhost`, and `harrier+tls://`, `harrier+rdma://`."""

    Connection = DrainedConnection
    client: Any = None

    default_port = 5672  # type: ignore[assignment]
    scheme = "amqp"
    driver_type = "amqp"
    driver_name = "harrier"
    connection_errors = (exceptions.AMQPConnectionError, OSError)  # type: ignore[assignment]
    channel_errors = (  # type: ignore[assignment]
        exceptions.AMQPChannelError,
        exceptions.NackError,
        exceptions.UnroutableError,
    )
    recoverable_connection_errors = (
        exceptions.ConnectError,
        exceptions.StreamLostError,
        exceptions.ConnectionClosed,
        exceptions.ConnectionWrongStateError,
        exceptions.AMQPHeartbeatTimeout,
        exceptions.AnswerTimeout,
        OSError,
    )
    recoverable_channel_errors = (exceptions.ChannelClosed, exceptions.ChannelWrongStateError)
    implements = base.Transport.implements.extend(asynchronous=True, heartbeats=True)

    def __init__(self, client: Any, **more: Any) -> None:
        super().__init__(client, **more)
        # Behind `harrier+`, kombu leaves an address as it is; `harrier:` it takes apart.
        self.can_parse_url = "://" in (client.hostname or "")

    def qos_semantics_matches_spec(self, connection: DrainedConnection) -> bool:
        """A prefetch count that is to change for consumers that are there already is a channel's, as of RabbitMQ."""
        return False

    def driver_version(self) -> str:
        return importlib.metadata.version("harrier")

    def establish_connection(self) -> DrainedConnection:
        options = self.client.transport_options or {}
        parameters = URLParameters(self._address(options))
        parameters.timeout = self.client.connect_timeout or parameters.timeout
        if self.client.heartbeat:
            parameters.heartbeat = int(self.client.heartbeat)
        return self.Connection(parameters, self.client, bool(options.get("confirm_publish")))

    def _address(self, options: dict[str, Any]) -> str:
        """The client's address: kombu's with the client's scheme, or made of the parts that kombu has taken it into."""
        client = self.client
        pairs = {name: str(options[name]) for name in IN_ADDRESS if name in options}
        scheme, separator, rest = (client.hostname or "").partition("://")
        if separator:
            place, _, query = rest.partition("?")
            authority, _, path = place.partition("/")
            # kombu has `//` and nothing at all for the virtual host `/`.
            vhost = quote(unquote(path) or "/", safe="")
            address = f"{SCHEMES[scheme]}://{authority}/{vhost}{'?' if query else ''}{query}"
        else:
            password = client.password() if callable(client.password) else client.password
            login = f"{quote(client.userid, safe='')}:{quote(password or '', safe='')}@" if client.userid else ""
            port = f":{client.port}" if client.port else ""
            vhost = quote(client.virtual_host or "/", safe="")
            address = f"{self.scheme}://{login}{client.hostname or '127.0.0.1'}{port}/{vhost}"
        if not pairs:
            return address
        return f"{address}{'&' if '?' in address else '?'}{urlencode(pairs, quote_via=quote)}"

    def create_channel(self, connection: DrainedConnection) -> Channel:
        return connection.channel()

    def close_channel(self, channel: Channel) -> None:
        channel.close()

    def drain_events(self, connection: DrainedConnection, **more: Any) -> None:
        connection.drain_events(**more)

    def verify_connection(self, connection: DrainedConnection) -> bool:
        return connection.connected

    def close_connection(self, connection: DrainedConnection) -> None:
        connection.client = None
        connection.close()

    def _collect(self, connection: DrainedConnection | None) -> None:
        if connection is not None:
            connection.collect()

    def get_heartbeat_interval(self, connection: DrainedConnection) -> int:
        return connection.heartbeat

    def heartbeat_check(self, connection: DrainedConnection, rate: int = 2) -> None:
        connection.heartbeat_tick(rate=rate)

    def register_with_event_loop(self, connection: DrainedConnection, loop: Any) -> None:
        loop.add_reader(connection.fileno(), self.on_readable, connection, loop)

    def unregister_from_event_loop(self, connection: DrainedConnection, loop: Any) -> None:
        loop.remove_reader(connection.fileno())

    def get_manager(self, *arguments: Any, **more: Any) -> Any:
        return get_manager(self.client, *arguments, **more)


class TLSTransport(Transport):
    default_port = 5671
    scheme = "amqps"


class RDMATransport(Transport):
    scheme = "amqp+rdma"


for _name, _class in (("harrier", "Transport"), ("harrier+tls", "TLSTransport"), ("harrier+rdma", "RDMATransport")):
    kombu.transport.TRANSPORT_ALIASES[_name] = f"harrier.kombu:{_class}"
