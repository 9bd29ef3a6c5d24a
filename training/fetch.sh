#!/bin/sh
# Fetches the pictures and names, by npm at fixed versions, into $1 (default build/npm). Needs npm
# and node.
set -e
dir=${1:-build/npm}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir"
cp "$here/render.mjs" "$dir/"
cd "$dir"
[ -f package.json ] || echo '{"private": true}' > package.json
npm install --no-audit --no-fund --save-exact \
  @lobehub/fluent-emoji-3d@1.1.0 @iconify-json/fluent-emoji-flat@1.2.6 @iconify-json/noto@1.2.9 \
  unicode-emoji-json@0.9.0 emojilib@4.0.3 cldr-annotations-full@48.2.0 @resvg/resvg-js@2.6.2
for _ in 1 2 3 4 5 6 7 8; do node render.mjs && break; done
