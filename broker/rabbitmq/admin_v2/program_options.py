"""Options of `rabbitmqadmin` version 2 that stand before the command, some of them behind it too."""

from __future__ import annotations

from typing import NamedTuple

import click

from broker.rabbitmq.admin_v2.value_types import TYPES

LINES = """
-c,--config text CONFIG_FILE_PATH file with settings, in TOML [default: ~/.rabbitmqadmin.conf]
-N,--node text NODE_ALIAS the section of the file [default: default]
-H,--host,--hostname text TARGET_HOST host of the HTTP API
-P,--port u16 TARGET_PORT port of the HTTP API
-U,--base-uri text BASE_URI scheme, host and port in one
--path-prefix text API_PATH_PREFIX path of the HTTP API [default: /api]
-V,--vhost text TARGET_VHOST virtual host [default: /]
-u,--username text USERNAME user to log in as
-p,--password text PASSWORD password of the user
-k,--insecure flag - take any certificate
--use-tls flag USE_TLS connect with TLS
--tls-ca-cert-file text - certificates of the authorities that are trusted (PEM)
--tls-cert-file text - certificate to show (PEM)
--tls-key-file text - its private key (PEM)
--timeout seconds TIMEOUT seconds that an answer may take [default: 60]
-q,--quiet flag QUIET_MODE print less
-v,--verbose flag VERBOSE print each request to standard error
--non-interactive flag NON_INTERACTIVE_MODE tables without heading and lines, for scripts
--table-style style TABLE_STYLE modern, borderless, ascii, dots, psql, markdown or sharp
"""
"""Names, type, variable of the environment without RABBITMQADMIN_ before it, and help."""


class ProgramOption(NamedTuple):
    """An option of the program."""

    names: tuple[str, ...]
    kind: str
    variable: str | None
    about: str

    @property
    def key(self) -> str:
        """The name of its value."""
        return next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")

    def made(self, *, from_environment: bool) -> click.Option:
        """Return it for click."""
        variable = self.variable if from_environment else None
        if self.kind == "flag":
            return click.Option([*self.names, self.key], is_flag=True, help=self.about, envvar=variable)
        return click.Option([*self.names, self.key], type=TYPES[self.kind], help=self.about, envvar=variable)


def _read(line: str) -> ProgramOption:
    names, kind, variable, about = line.split(" ", 3)
    return ProgramOption(tuple(names.split(",")), kind, None if variable == "-" else f"RABBITMQADMIN_{variable}", about)


OPTIONS = {option.key: option for option in map(_read, LINES.strip().splitlines())}
EVERYWHERE = ("vhost", "non_interactive", "table_style")
"""Those that may stand behind the command too."""
