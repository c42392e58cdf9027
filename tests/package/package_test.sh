#!/usr/bin/env bash
# Installs the build tree given as $1 into a temporary prefix, builds the consumer against it and runs it under the
# installed launcher.
set -euo pipefail
build=$1
source=$(cd "$(dirname "$0")" && pwd)/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -S "$source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
      "${@:2}" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
# The build tree must not be needed: the consumer finds the library through its own run path, plug-ins beside that.
output=$("$work/prefix/bin/ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/build/consumer")
echo "$output"
[ "$output" = "sum of 3 ranks: 3" ]

# The same for a program in C, with a compiler for C alone.
cmake -S "${source%/*}/c_consumer" -B "$work/c_build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
      >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/c_build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
output=$("$work/prefix/bin/ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/c_build/c_consumer")
[ "$output" = "sum in C: 3" ] || { echo "the program in C says: $output"; exit 1; }

# The benchmark is found where it is installed.
"$work/prefix/bin/ddplaunch" bench --nproc-per-node=2 --backend=cpu all_reduce --sizes 4K --iterations 2

# What the program says of itself lies where shells and man look for it; under the name torchrun it is in its
# compatibility mode.
for file in man/man1/ddplaunch.1 bash-completion/completions/ddplaunch zsh/site-functions/_ddplaunch \
            fish/vendor_completions.d/ddplaunch.fish; do
  [ -s "$work/prefix/share/$file" ] || { echo "share/$file is missing or empty"; exit 1; }
done
[ -s "$work/prefix/include/ddp_board.h" ] && [ -s "$work/prefix/share/ddplaunch/python/ddp_board.py" ]
usage=$("$work/prefix/libexec/ddplaunch/torchrun" --help | sed -n 1p)
[ "$usage" = "Usage: torchrun [options] program [arguments ...]" ] || { echo "torchrun says: $usage"; exit 1; }
[ ! -e "$work/prefix/bin/torchrun" ]
