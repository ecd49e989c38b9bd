"""The commands of an installation: `leveret`, which is also `python -m leveret`, and the entry point of the image."""

from __future__ import annotations

import sys
from typing import NoReturn

from leveret import use_packages


def main() -> NoReturn:
    """Run the command line of this process."""
    _search_our_own()
    from broker.cli.main import main as run

    run()


def container() -> NoReturn:
    """Run the entry point of the image."""
    _search_our_own()
    from broker.rabbitmq.container.entry_point import main as run

    run()


def template() -> None:
    """Run the process from which brokers for tests are forked."""
    _search_our_own()
    from broker.cli.testing.template_process import run

    run()


def _search_our_own() -> None:
    """Search our packages first, in place of the directory that Python puts first for a program.

    That is the directory of the program, or with `-m` the working directory: neither has packages of ours.
    """
    if not sys.flags.safe_path:
        del sys.path[0]
    use_packages()


if __name__ == "__main__":
    main()
