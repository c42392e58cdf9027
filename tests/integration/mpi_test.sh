#!/usr/bin/env bash
# The mpi backend as a whole, with the programs of the build folder $1: two ranks of mpirun train; without mpirun, and
# with a rank that fails, the user is told so and nothing hangs.
set -euo pipefail
bin=$1
command -v mpirun >/dev/null || { echo "skipped: no mpirun (install Open MPI)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "FAILED: $1"; cat output; exit 1; }
expect() { grep -qF -- "$1" output || fail "expected '$1'"; }
run_on_two() { timeout 120 mpirun --allow-run-as-root --oversubscribe -n 2 env DDP_BACKEND=mpi "$@" >output 2>&1; }

# The environment of a launcher above this test must not be taken for mpirun's.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT DDP_BACKEND

echo "ranks that no mpirun started are told to use it"
if RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1 DDP_BACKEND=mpi "$bin/train_charlm" >output 2>&1; then
  fail "a rank without mpirun should have failed"
fi
expect "the program was not started by mpirun"

echo "ranks that the environment counts otherwise than mpirun are a mismatch"
if run_on_two env RANK=0 WORLD_SIZE=1 "$bin/train_charlm" --steps 1 --checkpoint ''; then
  fail "a wrong world size should have failed"
fi
expect "Start the program with mpirun and not with ddplaunch"

echo "a rank that is silent is a timeout, and mpirun ends it"
if run_on_two "$bin/mpi_collectives" silent; then fail "a silent rank should have failed the job"; fi
expect "timeout: rank 0: barrier"

echo "a rank that fails on its own ends the job at once"
started=$SECONDS
if run_on_two "$bin/mpi_collectives" fail; then fail "a failed rank should have failed the job"; fi
[ $((SECONDS - started)) -lt 60 ] || fail "the other rank waited for the time-out"

echo "one rank needs no mpirun"
DDP_BACKEND=mpi timeout 120 "$bin/train_charlm" --steps 2 --checkpoint '' >output 2>&1 || fail "one rank failed"
expect "backend mpi, 1 rank"

echo "every collective is right, in one group after another"
run_on_two "$bin/mpi_collectives" || fail "a collective is wrong"
expect "all collectives are right"

echo "two ranks train"
run_on_two "$bin/train_charlm" --steps 20 --checkpoint '' || fail "training failed"
expect "backend mpi, 2 ranks (asked for)"
expect "step 20/20"
