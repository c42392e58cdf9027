#!/usr/bin/env bash
# install_test.sh BUILD: runs scripts/install in a copy of the scripts. The build directory takes the place of the one that
# the script would make, so nothing is compiled.
set -euo pipefail
build=$1 cmake=$(command -v cmake) scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
command -v dpkg-query >/dev/null || { echo "this system is not Debian"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work"/{source/scripts,tools,bare,home}
cp "$scripts"/{install,setup,build.sh} "$work/source/scripts"
cat >"$work/tools/cmake" <<END
#!/bin/sh
[ "\$1" != --install ] || exec "$cmake" --install "$build" "\$3" "\$4" "\$5"
END
# This user is not root, and the system has no packages.
printf '#!/bin/sh\nexit 1\n' >"$work/bare/dpkg-query"
printf '#!/bin/sh\necho 1000\n' >"$work/bare/id"
chmod +x "$work"/{tools,bare}/*
export HOME=$work/home PATH=$work/tools:$PATH
install() { "$work/source/scripts/install" "$@" >"$work/output" 2>&1; }
expect() { grep -qF "$1" "$work/output" || { cat "$work/output"; echo "the output lacks: $1"; exit 1; }; }

# The default is a directory of the user. The output says how to find it, and nothing if the shell finds it already.
install || { cat "$work/output"; exit 1; }
version=$("$HOME/.local/bin/ddplaunch" --version)
expect "install: $version is in $HOME/.local"
expect "  export PATH=\"$HOME/.local/bin:\$PATH\""
(PATH=$HOME/.local/bin:$PATH; install)
if grep "export PATH" "$work/output"; then exit 1; fi
[ -e "$HOME/.local/include/ddp/ddp.h" ]
find "$HOME/.local" -name ddplaunchConfig.cmake | grep -q .

# CMake finds the package beside a directory of PATH: the installed one, and that of the build directory.
for bin in "$HOME/.local/bin" "$build/bin"; do
  PATH=$bin:$PATH "$cmake" -S "$scripts/../tests/package/c_consumer" -B "$work/consumer" --fresh >"$work/output" ||
    { cat "$work/output"; exit 1; }
  grep "ddplaunch_DIR:PATH=${bin%/bin}" "$work/consumer/CMakeCache.txt"
done

# A relative prefix belongs to the directory of the caller. Another ddplaunch that comes first in PATH is named.
(cd "$work" && PATH=$HOME/.local/bin:$PATH && install here)
"$work/here/bin/ddplaunch" --version
expect "PATH has another one first: $HOME/.local/bin/ddplaunch"

# Failures say what to do.
touch "$work/file"
if install "$work/file/prefix"; then exit 1; fi
expect "install: cannot write to $work/file/prefix. Choose another directory"
if (PATH=$work/bare:$PATH; install); then exit 1; fi
expect "As root, run:"
if install --help; then exit 1; fi
expect "Use scripts/install [PREFIX]"
