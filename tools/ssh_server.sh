#!/bin/sh
# Puts OpenSSH's server into a directory, for tests that ship to it: tools/ssh_server.sh DIRECTORY
#
# Nothing is installed: the package of Debian or Ubuntu is unpacked. Where the machine has a server, or packages of another
# kind, the directory stays empty, and without any server these tests are skipped.
set -eu

directory=$1
mkdir -p "$directory"  # stays without a server: it is tried once
if PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "leveret: no SSH server is installed: tests of shipping by SFTP are skipped" >&2
    exit 0
fi
cd "$directory"
# The lists of packages are root's to fetch; a new machine has none.
apt-get -qq download openssh-server 2>/dev/null || { apt-get -qq update && apt-get -qq download openssh-server; } || {
    echo "leveret: apt-get has no openssh-server: tests of shipping by SFTP are skipped" >&2
    exit 0
}
dpkg-deb --extract openssh-server_*.deb .
rm openssh-server_*.deb
