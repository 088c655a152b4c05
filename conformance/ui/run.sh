#!/usr/bin/env bash
# Tries qqctl and the dashboard on a living broker, the dashboard in headless Chromium.
#
#   conformance/ui/run.sh QQD_BINARY QQCTL_BINARY [TEST_FILE...]
#
# Needs node and Chromium (CHROMIUM names the binary, /usr/bin/chromium unless it does). What it installs goes below the
# cargo target folder. QQ_SHOTS=FOLDER keeps a picture of each screen. The last lines are node's own summary.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=$(realpath -m "${CARGO_TARGET_DIR:-$HERE/../../target}")/ui
[ $# -ge 2 ] && [ -x "$1" ] && [ -x "$2" ] || { echo "usage: run.sh QQD_BINARY QQCTL_BINARY [TEST_FILE...]" >&2; exit 2; }
QQD=$(realpath "$1")
QQCTL=$(realpath "$2")
export QQD QQCTL
shift 2
mkdir -p "$WORK"
cp "$HERE"/*.js "$HERE"/package.json "$HERE"/package-lock.json "$HERE"/.npmrc "$WORK/"
cd "$WORK"
want=$(cksum < package-lock.json)
if [ "$(cat installed 2> /dev/null)" != "$want" ]; then
  npm ci --silent
  echo "$want" > installed
fi
[ $# -gt 0 ] || set -- cli.test.js dashboard.test.js
exec node --test --test-concurrency=1 --test-reporter=spec "$@"
