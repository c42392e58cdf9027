#!/usr/bin/env bash
# package_test.sh BUILD [all]: installs the build tree into a temporary prefix, builds the consumer against it and runs it
# under the installed launcher. With "all", it also compiles each public header alone, and a program against another
# libtorch, which takes half a minute of a processor.
set -euo pipefail
build=$1
all=${2:-}
source=$(cd "$(dirname "$0")" && pwd)/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -S "$source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
      >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
# The consumer must not need the build tree. It finds the library through its own run path, and the plug-ins beside the
# library.
output=$("$work/prefix/bin/ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/build/consumer")
echo "$output"
[ "$output" = "sum of 3 ranks: 3" ]

# Each public header compiles alone, with the warnings of strict projects. The headers for libtorch are compiled by the
# adapter's tests.
[ "$all" != all ] || (cd "$work/prefix/include" && find ddp -name '*.h' ! -name c.h ! -name libtorch.h) | sort |
  xargs -P 2 -I HEADER sh -c 'echo "#include <HEADER>" | c++ -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -I"$0/include" -x c++ - || { echo "HEADER fails"; exit 255; }' "$work/prefix"
# A program may set only some members of the options, without a warning about the others.
cat >"$work/options.cpp" <<'END'
#include <ddp/ddp.h>
using namespace std::chrono_literals;
const ddp::CallOptions kCall{.timeout = 1s};
const ddp::DataParallelOptions kOptions{.unused = ddp::UnusedParameters::find};
const ddp::InitOptions kInit{.backend = "cpu"};
const ddp::TcpStoreOptions kStore{.host = "localhost", .port = 1};
const ddp::CheckpointOptions kCheckpoint{.keep_last = 1};
END
c++ -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -I"$work/prefix/include" "$work/options.cpp"
c++ -std=c++17 -fsyntax-only -I"$work/prefix/include" "$work/options.cpp" 2>"$work/cxx17.log" && exit 1
grep -q 'ddp needs C++20' "$work/cxx17.log"

# If a component is missing or libtorch is not the adapter's version, CMake reports why.
refused() {  # arguments: COMPONENTS WORDS [CMake options]
  if cmake -S "${source%/*}/components" -B "$work/components" --fresh -DCMAKE_PREFIX_PATH="$work/prefix" \
           -DCOMPONENTS="$1" "${@:3}" >"$work/configure.log" 2>&1; then
    echo "COMPONENTS $1 were found"; exit 1
  fi
  tr -s ' \n' ' ' <"$work/configure.log" | grep -q "$2" || { cat "$work/configure.log"; exit 1; }
}
refused nonsense "has no component 'nonsense'; there are libtorch and static"
if [ -e "$(find "$work/prefix" -name ddplaunchLibtorchTargets.cmake)" ]; then
  mkdir "$work/other"
  echo 'set(Torch_VERSION 9.8.7)' >"$work/other/TorchConfig.cmake"
  # The adapter is not linked to a libtorch, because it uses the program's.
  if readelf -d "$work"/prefix/lib*/libddp_libtorch.so | grep 'NEEDED.*torch_cpu'; then exit 1; fi
  refused libtorch "built for libtorch [0-9.]*, and $work/other is libtorch 9.8.7" -DTorch_DIR="$work/other"
  # A real libtorch in a Python environment is refused as well, also at run time.
  if [ "$all" = all ] && python=$(python3 "${source%/*}/../support/environments.py" pytorch); then
    torch=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__))')
    refused libtorch "built for libtorch [0-9.]*, and $torch/share/cmake/Torch is libtorch 2" -DTorch_DIR="$torch/share/cmake/Torch"
    lib=$(dirname "$(find "$work/prefix" -name libddp_libtorch.so)")
    c++ -std=c++20 "${source%/*}/embedding/torch_consumer.cpp" -I"$work/prefix/include" -I"$torch/include" \
      -I"$torch/include/torch/csrc/api/include" -L"$lib" -lddp_libtorch -lddp_runtime -L"$torch/lib" -Wl,--no-as-needed -ltorch \
      -ltorch_cpu -lc10 -Wl,-rpath,"$lib:$torch/lib" -Wl,--allow-shlib-undefined -o "$work/mixed"
    "$work/prefix/bin/ddplaunch" -q "$work/mixed" >"$work/mixed.log" 2>&1 && { echo "another libtorch is not refused"; exit 1; }
    grep -q "adapter was built for libtorch [0-9.]*, and the program was compiled with 2" "$work/mixed.log" ||
      { cat "$work/mixed.log"; exit 1; }
  fi
else
  refused libtorch "was built without libtorch"
fi

# The static library can be linked.
cmake -S "${source%/*}/components" -B "$work/static" -DCMAKE_PREFIX_PATH="$work/prefix" -DCOMPONENTS=static \
      >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/static" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
output=$("$work/prefix/bin/ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/static/consumer")
[ "$output" = "sum of 3 ranks: 3" ] || { echo "the static program says: $output"; exit 1; }
if ldd "$work/static/consumer" | grep libddp; then exit 1; fi

# The binaries have the hardening of distributions: their addresses are random, and the tables for calls of libraries are
# filled at the start and read-only. The launcher and the library also call the checks of stacks and of buffers.
if grep -q '^DDP_HARDENING:[A-Z]*=ON' "$build/CMakeCache.txt"; then
  has() { grep -qE "$1" <<<"$(readelf "${@:2}")"; }  # arguments: PATTERN, and those of readelf
  checked=0
  while read -r file; do
    has 'Type:.*DYN' -hW "$file" || { echo "$file is not position-independent"; exit 1; }
    has GNU_RELRO -lW "$file" || { echo "$file has no RELRO"; exit 1; }
    # The adapter does not know which libtorch the program uses.
    case $file in *libddp_libtorch.so*) continue ;; esac
    has 'FLAGS.*NOW' -dW "$file" || { echo "$file has no BIND_NOW"; exit 1; }
    checked=$((checked + 1))
  done < <(find "$work/prefix" -type f \( -perm -u+x -o -name '*.so*' \) -exec sh -c 'head -c 4 "$1" | grep -q ELF' - {} \; -print)
  [ "$checked" -ge 4 ] || { echo "only $checked binaries were checked"; exit 1; }
  for file in "$work/prefix/bin/ddplaunch" "$(find "$work/prefix" -name 'libddp_runtime.so')"; do
    for symbol in __stack_chk_fail '__[a-z]*_chk'; do
      has " $symbol(@|\$)" -W --dyn-syms "$file" || { echo "$file does not call $symbol"; exit 1; }
    done
  done
fi

# No binary contains the path where it was built.
if grep -rl --binary-files=text "$(cd "$build/../.." && pwd)/src" "$work/prefix"; then echo "tell where they were built"; exit 1; fi
# The library exports only the symbols in cmake/ddp_runtime.exports.
library=$(find "$work/prefix" -name 'libddp_runtime.so')
nm -DC --defined-only "$library" | cut -c20- | grep -vE '^(ddp::|ddp_|(typeinfo|typeinfo name|vtable) for ddp::[A-Z])' && exit 1

# A program in C works as well, with only a C compiler.
cmake -S "${source%/*}/c_consumer" -B "$work/c_build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
      >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/c_build" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
output=$("$work/prefix/bin/ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/c_build/c_consumer")
[ "$output" = "sum in C: 3" ] || { echo "the program in C says: $output"; exit 1; }

# The installed launcher finds the benchmark.
"$work/prefix/bin/ddplaunch" bench --nproc-per-node=2 --backend=cpu all_reduce --sizes 4K --iterations 2

# The manual page and the completions are installed where man and shells look for them. Invoked as torchrun, the program
# is in compatibility mode.
for file in man/man1/ddplaunch.1.gz bash-completion/completions/ddplaunch zsh/site-functions/_ddplaunch \
            fish/vendor_completions.d/ddplaunch.fish; do
  [ -s "$work/prefix/share/$file" ] || { echo "share/$file is missing or empty"; exit 1; }
done
[ -s "$work/prefix/include/ddp_page.h" ] && [ -s "$work/prefix/libexec/ddplaunch/ddp_python/modules/ddp_page.py" ]
usage=$("$work/prefix/libexec/ddplaunch/torchrun" --help | sed -n 1p)
[ "$usage" = "Usage: torchrun [options] program [arguments ...]" ] || { echo "torchrun says: $usage"; exit 1; }
[ ! -e "$work/prefix/bin/torchrun" ]

# The installed tree works after it has been moved, through pkg-config.
mv "$work/prefix" "$work/moved"
export PKG_CONFIG_PATH=${library%/*}/pkgconfig
PKG_CONFIG_PATH=${PKG_CONFIG_PATH/#"$work/prefix"/"$work/moved"}
# shellcheck disable=SC2046
c++ -std=c++20 "$source/consumer.cpp" $(pkg-config --cflags --libs ddplaunch) \
    -Wl,-rpath,"$(pkg-config --variable=libdir ddplaunch)" -o "$work/by_pkg_config"
output=$("$work/moved/bin/ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/by_pkg_config")
[ "$output" = "sum of 3 ranks: 3" ] || { echo "the program by pkg-config says: $output"; exit 1; }

# The target for uninstalling removes all installed files.
cmake --install "$build" --prefix "$work/gone" >"$work/install.log"
(cd "$build" && cmake -P "${source%/tests/*}/cmake/uninstall.cmake") >"$work/install.log" 2>&1
left=$(find "$work/gone" ! -type d -o -name 'ddp*')
[ -z "$left" ] || { echo "uninstall has left: $left"; exit 1; }
