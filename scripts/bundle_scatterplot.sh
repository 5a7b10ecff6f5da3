#!/usr/bin/env bash
# Build src/tuplet/pages/static/scatterplot.min.js (regl-scatterplot and what it needs, one file, no network) and the
# licences beside it. Needs npm. Run it to move to another version; the page's test then says whether it still works.
set -euo pipefail
static="$(cd "$(dirname "$0")/.." && pwd)/src/tuplet/pages/static"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit regl-scatterplot@1.16.0 esbuild@0.25.12
echo 'export { default } from "regl-scatterplot";' >entry.js
npx esbuild entry.js --bundle --minify --format=iife --global-name=regl_scatterplot --target=es2020 \
  --legal-comments=none --outfile="$static/scatterplot.min.js"
{
  echo "scatterplot.min.js is regl-scatterplot 1.16.0 with the packages that it needs, made by"
  echo "scripts/bundle_scatterplot.sh. Their licences:"
  for folder in node_modules/regl-scatterplot node_modules/@flekschas/utils node_modules/{camera-2d-simple,dom-2d-camera,earcut,gl-matrix,pub-sub-es,regl,regl-line}; do
    printf '\n---- %s\n\n' "$(node -p "const p=require('./$folder/package.json'); p.name+' '+p.version+', '+p.license")"
    cat "$(ls "$folder"/LICENSE* | head -n 1)"
  done
} >"$static/scatterplot.LICENSE.txt"
