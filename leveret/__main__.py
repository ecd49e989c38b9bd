"""The commands of an installation: `leveret`, which is also `python -m leveret`, and the entry point of the image."""

from __future__ import annotations

import sys
from typing import NoReturn

from leveret import use_packages
from leveret.own_program import IN_ONE_DIRECTORY, TEMPLATE, restore_environment


def main() -> NoReturn:
    """Run the command line of this process."""
    _search_our_own()
    if sys.argv[1:2] == [TEMPLATE]:
        _template()
    from broker.cli.main import main as run

    run()


def container() -> NoReturn:
    """Run the entry point of the image."""
    _search_our_own()
    from broker.rabbitmq.container.entry_point import main as run

    run()


def _template() -> NoReturn:
    """Run the process from which brokers for tests are forked."""
    from broker.cli.testing.template_process import run

    run(int(sys.argv[2]))
    sys.exit()


def _search_our_own() -> None:
    """Search our packages first, in place of the directory that Python puts first for a program.

    That is the directory of the program, or with `-m` the working directory: neither has packages of ours. The single
    directory has nothing but ours.
    """
    if IN_ONE_DIRECTORY:
        restore_environment()
        return
    if not sys.flags.safe_path:
        del sys.path[0]
    use_packages()


if __name__ == "__main__":
    main()
