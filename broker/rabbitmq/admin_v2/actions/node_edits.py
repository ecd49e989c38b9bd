"""The configuration file shown, and its sections changed; all other lines stay as they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.rabbitmq.admin_v2.command_tree import Parsed
from broker.rabbitmq.admin_v2.run_settings import KEYS, USUAL_FILE, Failure, file_of, read_sections

MASKED = "********"
COLUMNS = {
    "hostname": "hostname",
    "port": "port",
    "scheme": "scheme",
    "base_uri": "base_uri",
    "username": "username",
    "password": "password",
    "vhost": "virtual_host",
    "path_prefix": "path_prefix",
}
"""Headings, and the keys of a section that they are for."""
_HEADING = re.compile(r"^[ \t]*\[(?P<name>[^\[\]]+)\][ \t]*(#.*)?$", re.MULTILINE)


def edit_nodes(parsed: Parsed) -> list[list[str]]:
    """Carry out a command on the file; the rows to show. Raises Failure, OSError."""
    file, values, command = file_of(parsed.options), parsed.values, parsed.command.name
    shown = parsed.options.get("config", USUAL_FILE)
    if command.startswith("config_file show") and not file.exists():
        raise Failure(f"Command execution failed: Configuration file '{shown}' does not exist")
    if command == "config_file show_path":
        return [["key", "value"], ["Configuration file path", str(file.absolute())]]
    if command == "config_file show":
        return _shown(read_sections(file), revealed=values["reveal_passwords"])
    verb = command.removeprefix("config_file ").removesuffix("_node")
    try:
        _edit(file, verb, values, parsed.options.get("vhost"))
    except Failure as error:
        way = {"add": "add node to", "update": "update node in", "delete": "delete node from"}[verb]
        raise Failure(f"Command execution failed: Failed to {way} configuration file: {error}") from error
    return []


def _shown(sections: Mapping[str, Mapping[str, Any]], *, revealed: bool) -> list[list[str]]:
    rows = [["name", *COLUMNS]]
    for name, section in sections.items():
        values = section if revealed else {**section, "password": MASKED}
        rows.append([name, *(_plain(values.get(key)) for key in COLUMNS.values())])
    return rows


def _plain(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _edit(file: Path, verb: str, values: Mapping[str, Any], vhost: str | None) -> None:
    if not file.exists() and not values["create_file_if_missing"]:
        raise Failure(f"the provided config file at '{file}' does not exist")
    sections = read_sections(file) if file.exists() else {}
    name = values["node"] or values.get("host") or "localhost"
    if verb == "add" and name in sections:
        text = f"node '{name}' already exists in the configuration file. Use 'update_node' to modify it"
        raise Failure(text)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    section = "" if verb == "delete" else _section(name, sections.get(name, {}), values, vhost)
    _write(file, _replaced(text, name, section))


def _section(name: str, before: Mapping[str, Any], values: Mapping[str, Any], vhost: str | None) -> str:
    """The text of a section with what it had before and what is given now."""
    said = {key: values.get(option) for key, (option, _) in KEYS.items()} | {"virtual_host": vhost}
    given = {key: value for key, value in said.items() if value not in (None, False)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**before, **given}.items()]
    heading = f"[{name}]" if re.fullmatch(r"[\w-]+", name, re.ASCII) else f"[{json.dumps(name)}]"
    return "\n".join([heading, *lines, "", ""])


def _replaced(text: str, name: str, section: str) -> str:
    """A file's text with a section in the place of the one of this name, else at the end."""
    headings = [*_HEADING.finditer(text)]
    for number, heading in enumerate(headings):
        if heading["name"].strip().strip("\"'") == name:
            end = headings[number + 1].start() if number + 1 < len(headings) else len(text)
            return text[: heading.start()] + section + text[end:]
    return (f"{text.rstrip()}\n\n" if text.strip() else "") + section


def _write(file: Path, text: str) -> None:
    """Replace the file by one for its owner only: it may hold passwords."""
    new = file.with_name(f"{file.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123
        out.write(text)
    new.replace(file)
