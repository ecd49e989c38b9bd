"""`requirements.py PYPROJECT [EXTRA...]`: what a project requires, a line each, for `pip install --requirement`.

For the image: what is required has a layer of its own, which other files than pyproject.toml do not change.
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
