#!/usr/bin/env bash
# interop_test.sh NAME BIN_DIR ENVIRONMENT: runs one of the tests below with the Python and PyTorch of an environment (see
# tests/support/environments.py), or of Debian if it is called "debian". Exits with 77 if they are missing.
set -euo pipefail
name=$1
bin=$2
here=$(cd "$(dirname "$0")" && pwd)
python=$(python3 "$here/../support/environments.py" "$3") || { code=$?; echo "$python"; exit $code; }
export OMP_NUM_THREADS=1

case "$name" in
  torch_store | torch_gloo)
    "$bin/ddplaunch" -q --nproc-per-node=2 "$python" -W ignore "$here/$name.py"
    ;;
  torch_single)
    # A single worker has no peers, but it still needs the store.
    "$bin/ddplaunch" -q --nproc-per-node=1 "$python" -W ignore "$here/torch_gloo.py"
    ;;
  foreign_store)
    # The client is ddplaunch's and the server is PyTorch's.
    "$python" -W ignore "$here/foreign_store.py" "$bin/foreign_store"
    ;;
  sampler)
    "$python" -W ignore "$here/sampler_parity.py" "$bin/sampler_indices"
    ;;
  torch_parity)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # If Python's PyTorch is not the version of the build, its layers round differently in f32. The updates of
    # ddplaunch's own optimizers do so, too. A hundred steps magnify the difference, so these cases use f64.
    theirs=f64
    if "$python" -c 'import sys, torch; sys.exit(not torch.__version__.startswith(sys.argv[1]))' \
        "$("$bin/torch_parity" --version)"; then
      theirs=f32
    fi
    folders=()
    for backend in cpu gloo; do
      words=()
      for case in sgd/$theirs adam/$theirs accumulated_sgd/$theirs our_sgd/f64 our_adam/f64 sharded_adam/f64; do
        folder=$work/$case/$backend
        mkdir -p "$folder"
        words+=("$folder" "${case%/*}" "${case#*/}")
        folders+=("$folder")
      done
      "$bin/ddplaunch" -q --nproc-per-node=2 --backend="$backend" "$bin/torch_parity" "${words[@]}"
    done
    "$bin/ddplaunch" -q --nproc-per-node=2 "$python" -W ignore "$here/torch_parity.py" "${folders[@]}"
    ;;
  checkpoint)
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
