#!/usr/bin/env bash
# embedding_test.sh FOLDER DDPLAUNCH WITH_TORCH FETCH [CMake options]: builds a project that embeds the sources in FOLDER,
# which it creates and removes. The folder is the same in each run, so that the compiler's cache knows the files. The
# runtime alone must not need the dependencies of the launcher. If DDPLAUNCH is "configure", nothing is built.
set -euo pipefail
work=$1 ddplaunch=$2 with_torch=$3 fetch=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT

cmake -S "$here/embedding" -B "$work" -G Ninja -DDDPLAUNCH="${here%/tests/package}" -DDDP_WITH_TORCH="$with_torch" \
      -DFETCH="$fetch" -DDDP_WITH_MPI=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON -DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON \
      -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON "${@:5}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
find "$work" -name 'cmake_install.cmake' -exec grep -l libddp_runtime {} + && { echo "it would be installed, too"; exit 1; }
[ "$ddplaunch" = configure ] && exit
targets=consumer
[ "$with_torch" = OFF ] || targets="consumer torch_consumer"
# shellcheck disable=SC2086
cmake --build "$work" --target $targets >"$work/log" 2>&1 || { tail -50 "$work/log"; exit 1; }

output=$("$ddplaunch" -q --no-tag --nproc-per-node=3 --backend=cpu "$work/consumer")
[ "$output" = "sum of 3 ranks: 3" ] || { echo "the consumer says: $output"; exit 1; }
[ "$with_torch" = OFF ] && exit
output=$("$ddplaunch" -q --no-tag --nproc-per-node=2 --backend=cpu "$work/torch_consumer")
[ "$output" = "mean gradient: 0.5" ] || { echo "the program with libtorch says: $output"; exit 1; }
