"""AMQP URIs, read and refused as by RabbitMQ 3.10.8's `amqp_uri`."""

from __future__ import annotations

import pytest

from broker.client.uris import AmqpEndpoint, ClientTls, UriError, parse

READ = {
    "amqp://": AmqpEndpoint("amqp://", None, 5672, None, None, "/"),
    "AMQP:///v%2F1": AmqpEndpoint("AMQP:///v%2F1", None, 5672, None, None, "v/1"),
    "amqp://h/": AmqpEndpoint("amqp://h/", "h", 5672, None, None, ""),
    "amqp://a%40b:p%3Aw@h:7/%C3%A9?heartbeat=3": AmqpEndpoint(
        "amqp://h:7/%C3%A9", "h", 7, "a@b", "p:w", "é", heartbeat=3
    ),
    "amqp://u@[::1]:7": AmqpEndpoint("amqp://[::1]:7", "::1", 7, "u", None, "/"),
    "amqp://h?connection_timeout=1500&frame_max=4096&auth_mechanism=external": AmqpEndpoint(
        "amqp://h", "h", 5672, None, None, "/", None, frame_max=4096, connect_seconds=1.5, mechanisms=("EXTERNAL",)
    ),
    "amqps://h": AmqpEndpoint("amqps://h", "h", 5671, None, None, "/", ClientTls(name="h")),
    "amqps://h?cacertfile=/a&certfile=/b&keyfile=/c&password=d&verify=verify_none&server_name_indication=disable": (
        AmqpEndpoint("amqps://h", "h", 5671, None, None, "/", ClientTls("/a", "/b", "/c", "d", False, None))
    ),
    "amqps://h?server_name_indication=other": AmqpEndpoint(
        "amqps://h", "h", 5671, None, None, "/", ClientTls(name="other")
    ),
}
REFUSED = {
    "": '{{unable_to_parse_uri,no_scheme},""}',
    "amqp://%4": '{{unterminated_entity,[37,52]},"amqp://%4"}',
    "amqp://h:0": '{{port_out_of_range,0},"amqp://h:0"}',
    "amqps://h?verify=x": '{{invalid_ssl_parameter,verify,"x"},"amqps://h?verify=x"}',
}
"""Beside those of `tests/conformance/http/shovels.requests`."""


@pytest.mark.parametrize(("uri", "read"), READ.items())
def test_a_uri_says_where_and_as_whom(uri: str, read: AmqpEndpoint) -> None:
    assert parse(uri) == read


@pytest.mark.parametrize(("uri", "reason"), REFUSED.items())
def test_what_is_no_uri_is_refused(uri: str, reason: str) -> None:
    with pytest.raises(UriError) as refused:
        parse(uri)
    assert str(refused.value) == reason
