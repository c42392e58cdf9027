#!/usr/bin/env bash
# Tests mpirun with the mpi backend, with the programs of the build folder $1. Ranks of mpirun train.
# Without mpirun, and if a rank fails, the user gets an error and nothing hangs.
set -euo pipefail
bin=$1
command -v mpirun >/dev/null || { echo "skipped: no mpirun (install Open MPI)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "FAILED: $1"; cat output; exit 1; }
expect() { grep -qF -- "$1" output || fail "expected '$1'"; }
run_on() { ranks=$1; shift; timeout 300 mpirun --allow-run-as-root --oversubscribe -n "$ranks" "$@" >output 2>&1; }
run_on_two() { run_on 2 env DDP_BACKEND=mpi "$@"; }

# The environment of a launcher above this test must not be taken for mpirun's.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT DDP_BACKEND

echo "ranks that no mpirun started are told to use it"
if timeout 120 "$bin/ddplaunch" --nproc_per_node=2 --backend=mpi "$bin/train_charlm" >output 2>&1; then
  fail "ranks without mpirun should have failed"
fi
expect "the program was not started by mpirun"

echo "ranks that the environment counts otherwise than mpirun are a mismatch"
if run_on_two env RANK=0 WORLD_SIZE=1 "$bin/train_charlm" --steps 1 --checkpoint ''; then
  fail "a wrong world size should have failed"
fi
expect "Start the program with mpirun, not with ddplaunch"

echo "a rank that is silent is a timeout, and mpirun ends it"
if run_on_two "$bin/mpi_collectives" silent; then fail "a silent rank should have failed the job"; fi
expect "timeout: rank 0: barrier"

echo "a rank that fails on its own ends the job before the time-out of 30 minutes"
code=0
run_on_two "$bin/mpi_collectives" fail || code=$?
[ $code -ne 0 ] || fail "a failed rank should have failed the job"
[ $code -ne 124 ] || fail "the other rank waited for the time-out"

echo "the others hear of a rank that throws"
run_on_two "$bin/mpi_collectives" throw && fail "a rank that threw should have failed the job"
expect "rank 1 has exited or failed"

echo "ranks that call different things are told what, and where"
if run_on_two "$bin/mpi_collectives" differ; then fail "different collectives should have failed the job"; fi
expect "mismatch: rank 1: all_reduce"
expect "rank 0 calls all_reduce sum"
expect "mpi_collectives.cpp:"

echo "a monitored barrier names who is missing"
if run_on_two "$bin/mpi_collectives" missing; then fail "a missing rank should have failed the job"; fi
expect "timeout: rank 0: monitored_barrier #2: rank 1 did not arrive within"

echo "one rank needs no mpirun"
DDP_BACKEND=mpi timeout 120 "$bin/train_charlm" --steps 2 --checkpoint '' >output 2>&1 || fail "one rank failed"
expect "backend mpi, 1 rank"

echo "every collective is right, in one group after another"
run_on_two "$bin/mpi_collectives" || fail "a collective is wrong"
expect "all collectives are right"

echo "groups of some ranks, made by several threads and split off"
run_on 4 env DDP_BACKEND=mpi "$bin/mpi_collectives" groups || fail "a sub-group is wrong"
expect "all groups are right"

echo "the same groups without MPI, under ddplaunch"
for backend in cpu gloo; do
  timeout 120 "$bin/ddplaunch" --nproc_per_node=4 --backend=$backend "$bin/mpi_collectives" groups >output 2>&1 ||
    fail "a sub-group is wrong over $backend"
  expect "all groups are right"
done

echo "any backend finds its ranks under mpirun, on one machine and on several"
run_on 2 "$bin/train_charlm" --steps 2 --checkpoint '' || fail "training without a named backend failed"
expect "backend cpu, 2 ranks"
run_on 2 env OMPI_COMM_WORLD_LOCAL_SIZE=1 DDP_BACKEND=gloo "$bin/train_charlm" --steps 2 --checkpoint '' ||
  fail "training over gloo failed"
expect "backend gloo, 2 ranks (requested)"

echo "two ranks train"
run_on_two "$bin/train_charlm" --steps 20 --checkpoint '' || fail "training failed"
expect "backend mpi, 2 ranks (requested)"
expect "step 20/20"
