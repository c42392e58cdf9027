#!/usr/bin/env bash
# interop_test.sh NAME BIN_DIR: runs one of the tests below with Python and PyTorch; 77 if those are missing. They are
# Debian's, or those of the interpreter that DDP_TEST_PYTHON names.
set -euo pipefail
name=$1
bin=$2
here=$(cd "$(dirname "$0")" && pwd)
python=${DDP_TEST_PYTHON:-/usr/bin/python3}
export OMP_NUM_THREADS=1

need() {
  "$python" -c "import $1" 2>/dev/null || { echo "$1 is not installed for $python (apt-get install python3-$1)"; exit 77; }
}

case "$name" in
  torch_store | torch_gloo)
    need torch
    "$bin/ddplaunch" -q --nproc-per-node=2 "$python" -W ignore "$here/$name.py"
    ;;
  torch_single)
    # One worker, no peers: the store still has to be there.
    need torch
    "$bin/ddplaunch" -q --nproc-per-node=1 "$python" -W ignore "$here/torch_gloo.py"
    ;;
  foreign_store)
    # Our client, their server.
    need torch
    "$python" -W ignore "$here/foreign_store.py" "$bin/foreign_store"
    ;;
  sampler)
    need torch
    "$python" -W ignore "$here/sampler_parity.py" "$bin/sampler_indices"
    ;;
  torch_parity)
    need torch
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # Another PyTorch than the one that we are built with computes a layer in another order, and our own optimizer an
    # update: a hundred steps magnify what f32 rounds.
    theirs=f64
    if "$python" -c 'import sys, torch; sys.exit(not torch.__version__.startswith(sys.argv[1]))' \
        "$("$bin/torch_parity" --version)"; then
      theirs=f32
    fi
    folders=()
    for case in sgd/$theirs adam/$theirs accumulated_sgd/$theirs our_sgd/f64 our_adam/f64 sharded_adam/f64; do
      for backend in cpu gloo; do
        folder=$work/$case/$backend
        mkdir -p "$folder"
        "$bin/ddplaunch" -q --nproc-per-node=2 --backend="$backend" "$bin/torch_parity" "$folder" "${case%/*}" "${case#*/}"
        folders+=("$folder")
      done
    done
    "$bin/ddplaunch" -q --nproc-per-node=2 "$python" -W ignore "$here/torch_parity.py" "${folders[@]}"
    ;;
  checkpoint)
    need numpy
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    "$bin/ddplaunch" -q --nproc-per-node=2 --backend=gloo "$bin/train_charlm" --steps 3 --checkpoint "$work/c.safetensors"
    "$python" "$here/checkpoint_reader.py" "$work/c.safetensors" 3
    ;;
  *)
    echo "unknown interop test $name"
    exit 2
    ;;
esac
