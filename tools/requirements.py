"""`requirements.py PYPROJECT [EXTRA...]`: prints the requirements of a project, one a line.

For the image: requirements have a layer of their own, which only a change of pyproject.toml rebuilds.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Raises KeyError for an extra that there is not."""
    file, *extras = sys.argv[1:]
    project = tomllib.loads(Path(file).read_text(encoding="utf-8"))["project"]
    for required in (project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)):
        print(*required, sep="\n")


if __name__ == "__main__":
    main()
