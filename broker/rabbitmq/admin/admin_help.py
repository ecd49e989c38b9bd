"""Help of `rabbitmqadmin`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.rabbitmq.admin.admin_formats import FORMATS
from broker.rabbitmq.admin.admin_kinds import CHANGED, LISTED, SHOWN, ChangedKind

CONFIG_HELP = """\
Usage
=====
rabbitmqadmin [options] subcommand

Configuration File
==================

  Options may stand in a file, one section for each broker: ~/.rabbitmqadmin.conf,
  or what -c names. -N chooses the section; without it the section is "default".
  What the command line says goes before what the file says.

Example
=======

  [default]
  hostname = localhost
  port = 15672
  username = guest
  password = guest
  vhost = /

  [over_tls]
  hostname = otherhost
  port = 15671
  username = guest
  password = guest
  declare_vhost = orders
  ssl = True
  ssl_ca_cert_file = /path/to/ca_certificate.pem
  ssl_key_file = /path/to/client_key.pem
  ssl_cert_file = /path/to/client_certificate.pem

  vhost is the virtual host of all subcommands, declare_vhost that of those which
  change something. A % in a value is written %%.

Use
===

  rabbitmqadmin -c rabbitmqadmin.conf -N over_tls ..."""


def _subcommands() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from ("Usage", "=====", "  rabbitmqadmin [options] subcommand", "")
    yield from ("  where subcommand is one of:", "", "Display", "=======", "")
    yield from (f"  list {name} [<column>...]" for name in LISTED)
    yield from (f"  show {name} [<column>...]" for name in SHOWN)
    yield from ("", "Object Manipulation", "===================", "")
    for action, kinds in CHANGED.items():
        if action not in ("publish", "get"):
            yield from (f"  {action} {name} {_arguments(kind)}" for name, kind in kinds.items())
    yield from ("", "Broker Definitions", "==================", "", "  export <file>", "  import <file>", "")
    yield from ("Publishing and Consuming", "========================", "")
    yield from (f"  {action} {_arguments(kind)}" for action in ("publish", "get") for kind in CHANGED[action].values())
    yield from ("", "  * Without payload, publish sends what comes by standard input.")
    yield from ("  * With payload_file, get writes the payload of one message to that file.", "")


def _arguments(kind: ChangedKind) -> str:
    needed = [each.replace("|", "=... OR ") + "=..." for each in kind.needed]
    possible = [f"{name}=..." for name in kind.possible]
    return " ".join([*needed, *([f"[{' '.join(possible)}]"] if possible else [])])


HELP_TOPICS: dict[str, Callable[[], str]] = {"subcommands": _subcommands, "config": lambda: CONFIG_HELP}

COMPLETION = """\
# Completion of rabbitmqadmin in bash: source this, or put it into /etc/bash_completion.d.
_rabbitmqadmin()
{
    local current="${COMP_WORDS[COMP_CWORD]}" words
    case "${COMP_WORDS[COMP_CWORD-1]}" in
@CASES@
        export|import|-c|--config) COMPREPLY=($(compgen -f -- "$current")); return 0 ;;
        -H|--host) COMPREPLY=($(compgen -A hostname -- "$current")); return 0 ;;
        *) words="@ACTIONS@" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return 0
}
complete -F _rabbitmqadmin rabbitmqadmin
"""
OPTION_WORDS = "--help --host --port --vhost --username --password --format --depth --sort --sort-reverse"


def completion() -> str:
    """A script for bash."""
    actions = {name: list(kinds) for name, kinds in CHANGED.items() if name not in ("publish", "get")}
    known = {"list": list(LISTED), "show": list(SHOWN), **actions, "help": list(HELP_TOPICS)}
    cases = [f'        {name}) words="{" ".join(kinds)}" ;;' for name, kinds in known.items()]
    cases.append(f'        -f|--format) words="{" ".join(FORMATS)}" ;;')
    for kinds, names in (("vhosts", "-V|--vhost"), ("users", "-u|--username")):
        cases.append(f'        {names}) words="$(rabbitmqadmin -q -f bash list {kinds})" ;;')
    actions_text = " ".join([*known, "export", "import", "get", "publish", OPTION_WORDS])
    return COMPLETION.replace("@CASES@", "\n".join(cases)).replace("@ACTIONS@", actions_text)
