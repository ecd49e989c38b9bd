"""The package by which an installation of Leveret is imported, beside `leveret_spark`.

The packages `broker`, `storage`, `migrations` and `pipeline` have names that a user's packages may have. An
installation has them in a directory of its own, which only Leveret's processes search; a checkout has them beside this
package (docs/decisions/0039-import-packages-in-a-directory-of-their-own.md).
"""

from __future__ import annotations

import sys
from pathlib import Path

NAMES = ("broker", "storage", "migrations", "pipeline")
_INSTALLED = Path(__file__).with_name("_packages")
PACKAGES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parent.parent
"""The directory of these packages."""


def use_packages() -> None:
    """Search Leveret's packages before all others in this process: for programs that import `pipeline`.

    Raises ImportError if another package with one of these names was imported before.
    """
    for name in NAMES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if name in sys.modules and (file is None or Path(file).resolve().parents[1] != PACKAGES.resolve()):
            raise ImportError(f"{name} of {file or 'another place'} is imported already; Leveret's is in {PACKAGES}")
    sys.path.insert(0, str(PACKAGES))
