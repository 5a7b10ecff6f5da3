#!/usr/bin/env bash
# One GPU box, some six minutes: NCCL, constants of the cost model, rungs of 10^7 and 10^8 nodes, and their comparison.
#   OUT=.. bash benchmarks/cluster/gpu.sh
# nccl.jsonl       training by one worker through NCCL, by two on the one GPU, beside the plain process
# constants.json   what `tuplet estimate --calibrate` measures here, before any rung is run
# rungs.jsonl      the rungs of rungs.toml by this code (38 GB of disk, 63 GB of memory)
# estimate.jsonl   estimated over measured seconds of each stage: the constants above against the rungs above
# log.txt          when each part began and ended, and what was told
# SMALL=1 tries everything with small sizes on a CPU.
set -u
cd "$(dirname "$0")/../.." || exit 1
export PYTHONPATH=$PWD/src PYTHONUNBUFFERED=1
out=${OUT:-local}
mkdir -p "$out"
device=cuda nodes=20000 spec=benchmarks/cluster/rungs.toml rungs="1e7 1e8"
if [ -n "${SMALL:-}" ]; then
  device=cpu nodes=2000 rungs="1e3 1e4" spec=$(mktemp --suffix=.toml)
  sed 's/rmat-1e7/rmat-1e3/; s/rmat-1e8/rmat-1e4/' benchmarks/cluster/rungs.toml >"$spec"
fi
part() { # part SECONDS NAME COMMAND..: its end and exit code are told, and nothing else stops
  local seconds=$1 name=$2
  shift 2
  echo "$(date +%T) $name" >>"$out/log.txt"
  timeout "$seconds" "$@" >>"$out/log.txt" 2>&1
  echo "$(date +%T) $name ended with $?; $(df -BG --output=avail /tmp | tail -1) free" | tee -a "$out/log.txt"
}
(nvidia-smi -L; nproc; free -g; df -h /tmp; python -c 'import torch; print(torch.__version__)') >>"$out/log.txt" 2>&1
part 110 nccl python benchmarks/cluster/nccl.py -o "$out/nccl.jsonl" --device $device --nodes $nodes
part 120 calibrate sh -c "python -m tuplet.cli estimate nodes=1e8,edges=1e9,columns=128 --calibrate --json --quiet \
  >'$out/constants.json'"
for size in $rungs; do
  part 330 "rung $size" python -m tuplet.cli bench scale --spec "$spec" --max-nodes "$size" --device $device \
    -o "$out/rungs.jsonl" --quiet
  part 30 compare python scripts/estimate_rungs.py --constants "$out/constants.json" --rows "$out/rungs.jsonl" \
    -o "$out/estimate.jsonl"
done
tail -20 "$out/log.txt"
