#!/usr/bin/env bash
# gpu_check_test.sh SOURCE BUILD: scripts/gpu_check packs a build and runs it, on the GPU that
# LD_LIBRARY_PATH offers.
set -euo pipefail
source=$1 build=$2
[ "$build" = "$source/build/release" ] || { echo "only a release build is packed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$source/scripts/gpu_check" --pack "$work/pack" --train-cuda "$build/bin/train_cuda_in_software"
rm "$work/pack/lib/libfake_gpu.so"  # LD_LIBRARY_PATH has this library, too
"$source/scripts/gpu_check" "$work/pack" --out "$work/out" --sizes 8,4096
grep -q '"ok": true' "$work/out/gpu_check.json"
for ranks in '1 rank' '2 ranks'; do
  grep -A2 "train_cuda, $ranks\"" "$work/out/gpu_check.json" | grep -q '"ok": true'
done
