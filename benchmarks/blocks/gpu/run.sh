#!/usr/bin/env bash
# Runs a spec for at most SECONDS on JOBS processes; rows are appended to $OUT/NAME.jsonl as they come.
#   TUPLET_DATA=.. OUT=.. bash benchmarks/blocks/gpu/run.sh SECONDS JOBS SPEC NAME [--only key=value ..]
set -u
cd "$(dirname "$0")/../../.." || exit 1
seconds=$1 jobs=$2 spec=$3 name=$4
shift 4
export PYTHONPATH=$PWD/src OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
mkdir -p "${OUT:-local}"
timeout -s INT "$seconds" python -m tuplet.cli bench run "$spec" --out "${OUT:-local}/$name.jsonl" --jobs "$jobs" --quiet "$@"
wc -l "${OUT:-local}/$name.jsonl"
