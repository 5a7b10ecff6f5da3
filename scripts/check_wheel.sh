#!/usr/bin/env bash
# The wheel as a stranger gets it: build it, install it without extras in a fresh environment, run the demo there.
#
#     scripts/check_wheel.sh [PYTHON]        (default python3)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/builder"
"$work/builder/bin/python" -m pip install -q -c "$root/constraints.txt" setuptools
cp -r "$root/src" "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$work/"  # no build/ left in the checkout
"$work/builder/bin/python" -m pip wheel -q --no-deps --no-build-isolation -w "$work/dist" "$work"
wheel=$(ls "$work"/dist/tuplet-*.whl)
echo "wheel: $(basename "$wheel"), $(du -k "$wheel" | cut -f1) kB"

"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -q -c "$root/constraints.txt" "$wheel"
cd "$work" # not the checkout: what runs is what was installed
unset PYTHONPATH

version=$("$work/venv/bin/tuplet" --version)
wanted="tuplet $(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")"
if [ "$version" != "$wanted" ]; then
    echo "tuplet --version says '$version', pyproject.toml '$wanted'" >&2
    exit 1
fi
echo "$version"
"$work/venv/bin/python" -c 'import importlib.util as u; assert not any(map(u.find_spec, ("matplotlib", "openTSNE", "faiss")))'
"$work/venv/bin/tuplet" demo --seeds 1 --quiet -o "$work/demo"
"$work/venv/bin/tuplet" report "$work/demo/vectors.parquet" --graph cora -o "$work/report.html" --quiet
ls "$work/demo/vectors.parquet" "$work/demo/model" "$work/report.html" > /dev/null
echo "the wheel works without extras"
