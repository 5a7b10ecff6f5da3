#!/usr/bin/env bash
# Block (b) on one GPU box: trials and test runs of METHOD.. (default: all of the spec), most important task first, at
# most SECONDS. KIND is "" for tuned.toml, "-labels" for tuned-labels.toml. Rows are appended to $OUT/trials$KIND.jsonl and
# $OUT/tuned$KIND.jsonl as they come; a later call goes on where this one stopped.
#   TUPLET_DATA=.. OUT=.. [KIND=-labels] bash benchmarks/blocks/gpu/tuned.sh SECONDS JOBS [METHOD..]
set -u
cd "$(dirname "$0")/../../.." || exit 1
seconds=$1 jobs=$2 kind=${KIND:-}
shift 2
export PYTHONPATH=$PWD/src OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
out=${OUT:-local}
mkdir -p "$out"
for name in trials tuned; do
  [ -f "benchmarks/results/$name$kind.jsonl" ] && cp -n "benchmarks/results/$name$kind.jsonl" "$out"/
done
only=()
for method in "$@"; do only+=(--only "method=$method"); done
python -m tuplet.cli bench tune "benchmarks/blocks/tuned$kind.toml" --out "$out/trials$kind.jsonl" \
  --test "$out/tuned$kind.jsonl" --jobs "$jobs" --seconds "$seconds" --quiet "${only[@]}"
cp "benchmarks/blocks/chosen$kind.toml" "$out"/
wc -l "$out"/*.jsonl
