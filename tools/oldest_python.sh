#!/bin/sh
# Builds a Python for `make single` on Debian 11, whose glibc is 2.31, as root:
#
#   tools/oldest_python.sh DIRECTORY [SUITE [PYTHON [OPENSSL]]]
#
# Debian 11's own Python is older than 3.11, and its OpenSSL is not maintained. Both are built from the sources of a later
# Debian with its patches: of SUITE (trixie) the source packages PYTHON (python3.13) and OPENSSL (openssl), or one of their
# versions (openssl=3.5.7-1~deb13u2). OPTIMIZE= makes a slower Python in a third of the time.
set -eu

directory=$1
suite=${2:-trixie}
python=${3:-python3.13}
openssl=${4:-openssl}
optimize=${OPTIMIZE-"--enable-optimizations"}
jobs=$(nproc)

mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
echo "deb-src $mirror $suite main" >/etc/apt/sources.list.d/sources-of-python.list
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends build-essential ca-certificates dpkg-dev git perl xz-utils \
    libbz2-dev libffi-dev liblzma-dev libpcre2-8-0 libsqlite3-dev pkg-config uuid-dev zlib1g-dev
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"
apt-get source --quiet "$openssl" "$python"

# Programs and libraries find those beside them; authorities for outgoing TLS are where Debian has them.
export LD_RUN_PATH="$directory/lib"
(cd openssl-*/ && ./Configure --prefix="$directory" --libdir=lib --openssldir=/usr/lib/ssl no-docs no-tests &&
    make --silent -j "$jobs" && make --silent install_sw)
# shellcheck disable=SC2086
(cd python*-*/ && ./configure --quiet --prefix="$directory" --enable-shared $optimize --disable-test-modules \
    --with-openssl="$directory" --with-openssl-rpath=auto --with-ensurepip=no &&
    make --silent -j "$jobs" && make --silent install)
"$directory/bin/python3" -c 'import bz2, ctypes, lzma, sqlite3, ssl, zlib; print(ssl.OPENSSL_VERSION, sqlite3.sqlite_version)'
