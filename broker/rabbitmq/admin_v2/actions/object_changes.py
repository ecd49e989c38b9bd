"""Objects declared, bound, published to; virtual hosts deleted by a pattern."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import new
from http import HTTPStatus
from secrets import token_bytes
from typing import Any
from urllib.parse import quote

from broker.cli.table_output import echo
from broker.rabbitmq.admin.admin_http import RequestRefused
from broker.rabbitmq.admin_v2.actions.bulk_outcome import BulkOutcome
from broker.rabbitmq.admin_v2.command_call import CommandCall
from broker.rabbitmq.admin_v2.run_settings import WRONG_LINE, Failure

HASHES = {"SHA256": "rabbit_password_hashing_sha256", "SHA512": "rabbit_password_hashing_sha512"}
"""The names of algorithms in the API."""
LETTERS = {"queue": "q", "exchange": "e"}
SALT_BYTES = 4
USUAL_VHOST = "/"
STREAM_ARGUMENTS = {
    "expiration": "x-max-age",
    "max_length_bytes": "x-max-length-bytes",
    "stream_max_segment_size_bytes": "x-stream-max-segment-size-bytes",
}


def _declare_queue(call: CommandCall) -> None:
    values = call.values
    arguments = {**call.json("arguments"), "x-queue-type": values["type"]}
    body = {key: values[key] for key in ("name", "durable", "auto_delete")}
    call.ask("PUT", call.path("queues/{vhost}/{name}"), {**body, "exclusive": False, "arguments": arguments})


def _declare_stream(call: CommandCall) -> None:
    values = call.values
    said = {name: values[key] for key, name in STREAM_ARGUMENTS.items() if values[key] is not None}
    arguments = {**call.json("arguments"), **said, "x-queue-type": "stream"}
    body = {"name": values["name"], "durable": True, "auto_delete": False, "exclusive": False, "arguments": arguments}
    call.ask("PUT", call.path("queues/{vhost}/{name}"), body)


def _declare_exchange(call: CommandCall) -> None:
    body = {key: call.values[key] for key in ("type", "durable", "auto_delete")}
    call.ask("PUT", call.path("exchanges/{vhost}/{name}"), {**body, "arguments": call.json("arguments")})


def _declare_binding(call: CommandCall) -> None:
    path = call.path("bindings/{vhost}/e/{source}/{letter}/{destination}", letter=_letter(call))
    call.ask("POST", path, {"routing_key": call.values["routing_key"], "arguments": call.json("arguments")})


def _delete_binding(call: CommandCall) -> None:
    """Delete the binding with this key and these arguments; its own key is looked up."""
    destination_type, arguments = call.values["destination_type"], call.json("arguments")
    behind = "bindings" if destination_type == "queue" else "bindings/destination"
    bindings = call.list(call.path(f"{destination_type}s/{{vhost}}/{{destination}}/{behind}"))
    wanted = (call.values["source"], call.values["routing_key"], arguments)
    found = [each for each in bindings if (each["source"], each["routing_key"], each["arguments"]) == wanted]
    if not found and call.values["idempotently"]:
        return
    if not found:
        raise Failure("API responded with a 404 Not Found")
    if len(found) > 1:
        text = "multiple bindings match, cannot determine which binding to delete without explicitly provided binding"
        raise Failure(f"{text} properties", WRONG_LINE)
    form = "bindings/{vhost}/e/{source}/{letter}/{destination}/{properties}"
    call.ask("DELETE", call.path(form, letter=_letter(call), properties=found[0]["properties_key"]))


def _letter(call: CommandCall) -> str:
    return LETTERS[call.values["destination_type"]]


def _declare_user(call: CommandCall) -> None:
    password, hashed, algorithm = (call.values[key] for key in ("password", "password_hash", "hashing_algorithm"))
    if not password and not hashed:
        raise Failure("Please provide either --password or --password-hash", WRONG_LINE)
    if password and hashed:
        raise Failure("Please provide either --password or --password-hash, not both", WRONG_LINE)
    body = {"password_hash": hashed or salted_hash(password, algorithm), "tags": call.values["tags"]}
    body |= {} if hashed else {"hashing_algorithm": HASHES[algorithm]}
    call.ask("PUT", call.path("users/{name}"), body)


def salted_hash(password: str, algorithm: str) -> str:
    """A password's hash with a new salt, as RabbitMQ keeps it."""
    salt = token_bytes(SALT_BYTES)
    return b64encode(
        salt + new(algorithm.lower(), salt + password.encode("utf-8", "surrogateescape")).digest()
    ).decode()


def _salt_and_hash(call: CommandCall) -> None:
    hashed = salted_hash(call.values["password"], call.values["hashing_algorithm"])
    call.table([["key", "value"], ["password hash", hashed]], "Result")


def _declare_permissions(call: CommandCall) -> None:
    body = {key: call.values[key] for key in ("configure", "read", "write")}
    call.ask("PUT", call.path("permissions/{vhost}/{username}"), body)


def _declare_vhost(call: CommandCall) -> None:
    keys = ("description", "default_queue_type", "tracing")
    body = {key: call.values[key] for key in keys if call.values[key] is not None}
    call.ask("PUT", call.path("vhosts/{name}"), body)


def _declare_limit(form: str) -> Callable[[CommandCall], None]:
    def declare(call: CommandCall) -> None:
        value = call.values["value"]
        if re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII) is None:
            raise Failure(f"Failed to parse JSON argument: '{value}' is not a valid integer value")
        call.ask("PUT", call.path(form), {"value": int(value)})

    return declare


def _declare_parameter(call: CommandCall) -> None:
    call.ask("PUT", call.path("parameters/{component}/{vhost}/{name}"), {"value": call.json("value")})


def _declare_global_parameter(call: CommandCall) -> None:
    value = call.any_json(call.values["value"])
    call.ask("PUT", call.path("global-parameters/{name}"), {"value": value})


def _publish(call: CommandCall) -> None:
    values = call.values
    properties = call.json("properties")
    body = {"routing_key": values["routing_key"], "payload": values["payload"], "payload_encoding": "string"}
    vhost, exchange = quote(call.vhost, ""), quote(values["exchange"], "", errors="surrogateescape")
    answer = json.loads(call.ask("POST", f"exchanges/{vhost}/{exchange}/publish", {**body, "properties": properties}))
    echo("Message published and routed successfully" if answer["routed"] else "Message published but NOT routed")


def _get(call: CommandCall) -> None:
    body = {"count": call.whole("count"), "ackmode": call.values["ack_mode"], "encoding": "auto"}
    answer: list[dict[str, Any]] = json.loads(call.ask("POST", call.path("queues/{vhost}/{queue}/get"), body))
    call.show("messages", answer)


def _enable_feature_flag(call: CommandCall) -> None:
    _enable(call, call.values["name"])


def _enable_all_feature_flags(call: CommandCall) -> None:
    for flag in call.list("feature-flags"):
        if flag["state"] == "disabled" and flag["stability"] == "stable":
            _enable(call, flag["name"])


def _enable(call: CommandCall, name: str) -> None:
    call.ask("PUT", call.path("feature-flags/{name}/enable", name=name), {"name": name})


def _delete_vhosts(call: CommandCall) -> None:
    """Delete the virtual hosts that a pattern matches, but the usual one."""
    try:
        pattern = re.compile(call.values["name_pattern"])
    except re.error as error:
        text = f"Unsupported argument value for property (field) name_pattern: {error}"
        raise Failure(text, WRONG_LINE) from error
    found = [row for row in call.list("vhosts") if pattern.search(row["name"]) and row["name"] != USUAL_VHOST]
    if call.values["dry_run"]:
        call.show("vhosts", found)
        return
    if not (call.values["approve"] or call.settings.non_interactive):
        raise Failure("Command execution failed: This operation is destructive and requires the --approve flag")
    outcome = BulkOutcome(call, len(found))
    for row in found:
        try:
            call.ask("DELETE", call.path("vhosts/{name}", name=row["name"]))
        except RequestRefused as error:
            absent = error.status == HTTPStatus.NOT_FOUND
            outcome.failed += not (absent and call.values["idempotently"])
    outcome.finish()
    if found and outcome.failed == len(found):
        raise Failure(f"Command execution failed: Failed to delete all {len(found)} virtual hosts")


CHANGES: dict[str, Callable[[CommandCall], None]] = {
    "declare queue": _declare_queue,
    "declare stream": _declare_stream,
    "declare exchange": _declare_exchange,
    "bindings declare": _declare_binding,
    "bindings delete": _delete_binding,
    "declare user": _declare_user,
    "passwords salt_and_hash": _salt_and_hash,
    "declare permissions": _declare_permissions,
    "declare vhost": _declare_vhost,
    "declare user_limit": _declare_limit("user-limits/{username}/{name}"),
    "declare vhost_limit": _declare_limit("vhost-limits/{vhost}/{name}"),
    "declare parameter": _declare_parameter,
    "global_parameters set": _declare_global_parameter,
    "publish message": _publish,
    "get messages": _get,
    "feature_flags enable": _enable_feature_flag,
    "feature_flags enable_all": _enable_all_feature_flags,
    "vhosts delete_multiple": _delete_vhosts,
}
"""By the names of their commands."""
