#!/usr/bin/env bash
# One GPU box, some five minutes: NCCL, constants of the cost model, a rung of 10^8 nodes, and their comparison.
#   OUT=.. [RUNGS="1e7 1e8"] [LIMIT=600] bash benchmarks/cluster/gpu.sh
# constants.json   what `tuplet estimate --calibrate` measures here, before any rung is run
# nccl.jsonl       training by one worker through NCCL, by two on the one GPU, beside the plain process; it runs while
#                  the first rung's graph is made, which is not among the seconds that are compared
# rungs.jsonl      the rungs of rungs.toml by this code (10^8: 38 GB of disk, 63 GB of memory)
# phases-*.json    seconds of the phases of a rung that did not end
# estimate.jsonl   estimated over measured seconds of each stage: the constants above against the rungs above
# log.txt          when each part began and ended, and what was told
# Every part has a limit, all have LIMIT seconds together, and none stops those after it.
# SMALL=1 tries everything with small sizes on a CPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=$PWD/src PYTHONUNBUFFERED=1
out=${OUT:-local} limit=${LIMIT:-600}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TUPLET_WORK=$work/rungs
device=cuda nodes=20000 spec=benchmarks/cluster/rungs.toml rungs=${RUNGS:-1e8} nccl=(55 --limit 40)
if [ -n "${SMALL:-}" ]; then
  device=cpu nodes=2000 rungs="1e3 1e4" spec=$work/small.toml nccl=(180 --limit 90)
  sed 's/rmat-1e7/rmat-1e3/; s/rmat-1e8/rmat-1e4/' benchmarks/cluster/rungs.toml >"$spec"
fi
part() { # part SECONDS NAME COMMAND..: its end and exit code are told, and nothing else stops
  local seconds=$1 name=$2 left=$((limit - SECONDS))
  shift 2
  [ "$left" -lt "$seconds" ] && seconds=$left
  [ "$seconds" -lt 5 ] && { echo "$(date +%T) $name left out: $limit s are over" | tee -a "$out/log.txt"; return; }
  echo "$(date +%T) $name, at most $seconds s" >>"$out/log.txt"
  timeout -k 5 "$seconds" "$@" >>"$out/log.txt" 2>&1
  local code=$?
  echo "$(date +%T) $name ended with $code; $(df -BG --output=avail /tmp | tail -1) free" | tee -a "$out/log.txt"
}
rung() { # rung SIZE
  part 420 "rung $1" python -m tuplet.cli bench scale --spec "$spec" --only "dataset=rmat-$1" --max-nodes "$1" \
    --device $device -o "$out/rungs.jsonl" --quiet
  for notes in $(find "$work" -name phases.json); do cp "$notes" "$out/phases-$1.json"; done
  rm -rf "$TUPLET_WORK"
}
(timeout 10 nvidia-smi -L; nproc; free -g; df -h /tmp; timeout 60 python -c 'import torch; print(torch.__version__)') \
  >>"$out/log.txt" 2>&1
part 120 calibrate sh -c "python -m tuplet.cli estimate nodes=1e8,edges=1e9,columns=128 --calibrate --json --quiet \
  >'$out/constants.json'"
part "${nccl[0]}" nccl python benchmarks/cluster/nccl.py -o "$out/nccl.jsonl" --device $device --nodes $nodes \
  "${nccl[@]:1}" &
for size in $rungs; do
  rung "$size"
  part 30 compare python scripts/estimate_rungs.py --constants "$out/constants.json" --rows "$out/rungs.jsonl" \
    -o "$out/estimate.jsonl"
done
wait
tail -20 "$out/log.txt"
