#!/bin/sh
# Installs into a virtual environment, which is made when it is not there: tools/install.sh PYTHON DIRECTORY PIP-ARGUMENTS...
#
# PYTHON's own pip does the work: to put a pip into the environment takes longer than to install all that the broker needs
# to run. Where PYTHON has no pip, or one from before 22.3, which does not know --python, the environment gets its own.
# Bytecode is not compiled here but by the first import: most modules of Spark and its like are never imported.
set -eu

python=$1
directory=$2
shift 2

if [ -z "$python" ]; then
    echo "leveret: no Python from 3.11 up was found; install one, or run: make PYTHON=/path/to/python3" >&2
    exit 1
fi
[ -x "$directory/bin/python" ] || "$python" -m venv --without-pip "$directory"
if "$python" -c 'import pip; raise SystemExit(int(pip.__version__.split(".")[0]) < 23)' 2>/dev/null; then
    exec "$python" -m pip --python "$directory/bin/python" install --quiet --disable-pip-version-check --no-compile "$@"
fi
if ! "$directory/bin/python" -m pip --version >/dev/null 2>&1 && ! "$directory/bin/python" -m ensurepip >/dev/null; then
    echo "leveret: $python has neither pip nor ensurepip; install one (on Debian: python3-venv)" >&2
    exit 1
fi
exec "$directory/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"
