"""The login at a broker: user and password."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from leveret_spark.option_errors import OptionError


@dataclass(frozen=True)
class Login:
    """A user and a password, given or in a file of the node that connects. Its text never shows the password."""

    user: str
    password_file: str | None = None
    given_password: str = field(default="guest", repr=False)

    @property
    def password(self) -> str:
        """The password. Raises OptionError when its file cannot be read."""
        if self.password_file is None:
            return self.given_password
        try:
            return Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise OptionError(f"option passwordFile: {error.strerror}: {self.password_file}") from None
