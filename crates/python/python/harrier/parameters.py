"""Where to connect, as whom, and how: pika's parameters, with RDMA as one more way.

Both forms come to an address of the client's, which is where everything that an address may say is understood.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode


@dataclass(frozen=True)
class PlainCredentials:
    """User and password."""

    username: str
    password: str = field(repr=False)
    erase_on_connect: bool = False


@dataclass(frozen=True)
class ExternalCredentials:
    """The client's certificate says who it is."""


@dataclass(frozen=True)
class TLSOptions:
    """Whom to trust, and what to show: paths of PEM files. The server is always verified."""

    cacertfile: str | os.PathLike[str] | None = None
    certfile: str | os.PathLike[str] | None = None
    keyfile: str | os.PathLike[str] | None = None
    server_hostname: str | None = None

    def pairs(self) -> dict[str, str]:
        named = {
            "cacertfile": self.cacertfile,
            "certfile": self.certfile,
            "keyfile": self.keyfile,
            "server_name_indication": self.server_hostname,
        }
        return {name: os.fspath(value) for name, value in named.items() if value is not None}


@dataclass
class Parameters:
    """What is common to both forms."""

    #: With the password, so it is not shown.
    url: str = field(repr=False)
    channel_max: int | None = None
    frame_max: int | None = None
    heartbeat: int | None = None
    connection_attempts: int = 1
    retry_delay: float = 2.0
    timeout: float | None = None
    client_properties: dict[str, Any] | None = None
    #: Whether large bodies are handed out in the memory they were received in, as `harrier.Body`.
    zero_copy: bool = False

    def connect_options(self) -> dict[str, Any]:
        return {
            "name": (self.client_properties or {}).get("connection_name"),
            "heartbeat_s": self.heartbeat,
            "frame_bytes_max": self.frame_max,
            "channel_max": self.channel_max,
            "timeout_s": self.timeout,
            "is_zero_copy": self.zero_copy,
        }


def _number(pairs: dict[str, str], name: str, kind: type) -> Any:
    if name not in pairs:
        return None
    try:
        return kind(pairs[name])
    except ValueError:
        raise ValueError(f"'{name}={pairs[name]}' is no number") from None


class URLParameters(Parameters):
    """`amqp://`, `amqps://`, `amqp+rdma://` or `amqp+unix:`, with pika's parameters behind the `?`."""

    def __init__(self, url: str, *, zero_copy: bool = False) -> None:
        pairs = dict(parse_qsl(url.partition("?")[2]))
        attempts = _number(pairs, "connection_attempts", int)
        delay = _number(pairs, "retry_delay", float)
        super().__init__(
            url,
            channel_max=_number(pairs, "channel_max", int),
            frame_max=_number(pairs, "frame_max", int),
            heartbeat=_number(pairs, "heartbeat", int),
            connection_attempts=1 if attempts is None else attempts,
            retry_delay=2.0 if delay is None else delay,
            timeout=_number(pairs, "socket_timeout", float),
            zero_copy=zero_copy,
        )


class ConnectionParameters(Parameters):
    """The parts of an address by name. `rdma=True` is `amqp+rdma://`, with `via` ("tcp", "tls") and `fallback` ("tcp")."""

    def __init__(
        self,
        host: str = "localhost",
        port: int | None = None,
        virtual_host: str = "/",
        credentials: PlainCredentials | ExternalCredentials | None = None,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int | None = None,
        ssl_options: TLSOptions | None = None,
        connection_attempts: int = 1,
        retry_delay: float = 2.0,
        socket_timeout: float | None = None,
        client_properties: dict[str, Any] | None = None,
        *,
        rdma: bool = False,
        via: str | None = None,
        fallback: str | None = None,
        zero_copy: bool = False,
    ) -> None:
        pairs = ssl_options.pairs() if ssl_options else {}
        if isinstance(credentials, ExternalCredentials):
            pairs["auth_mechanism"] = "external"
        for name, value in (("via", via), ("fallback", fallback)):
            if value is not None:
                pairs[name] = value
        scheme = "amqp+rdma" if rdma else "amqps" if ssl_options is not None else "amqp"
        login = ""
        if isinstance(credentials, PlainCredentials):
            login = f"{quote(credentials.username, safe='')}:{quote(credentials.password, safe='')}@"
        place = f"[{host}]" if ":" in host and not host.startswith("[") else host
        port_text = "" if port is None else f":{port}"
        query = f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""
        super().__init__(
            f"{scheme}://{login}{place}{port_text}/{quote(virtual_host, safe='')}{query}",
            channel_max=channel_max,
            frame_max=frame_max,
            heartbeat=heartbeat,
            connection_attempts=connection_attempts,
            retry_delay=retry_delay,
            timeout=socket_timeout,
            client_properties=client_properties,
            zero_copy=zero_copy,
        )
