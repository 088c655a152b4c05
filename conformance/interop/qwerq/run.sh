#!/usr/bin/env bash
# Drives the QWER-Q port of a qqd binary with two independent implementations of Protocol Buffers: the runtime of PyPI
# (Python) and protobufjs (Node), each in both layouts of frames.
#
#   [STORE=memory] conformance/interop/qwerq/run.sh QQD_BINARY [TEST,TEST...]
#
# Starts the binary twice on free ports of 127.0.0.1, with and without tokens, runs every test of tests.txt, ends the
# daemons by their pid. What it installs goes below the cargo target folder. The last line is `N passed, N failed`; exit
# status 1 when something failed, 2 when the tests could not be run.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$HERE/../../..
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")
WORK=$TARGET/interop-qwerq
# shellcheck source=../lib.sh
. "$HERE/../lib.sh"

client() {
  case $1 in
    python) timeout 300 "$WORK/venv/bin/python" "$HERE/python/client.py" "$ROOT/docs/qwer-q.md" "${@:2}" ;;
    node) timeout 300 node "$WORK/node/client.js" "$ROOT/docs/qwer-q.md" "$ROOT/proto-binary/proto/qwerq.proto" "${@:2}" ;;
  esac < /dev/null
}

# Every test of tests.txt must report; one that does not has failed.
run_tests() {
  local client=$1 layout=$2 name line
  client "$client" "$layout" "$OPEN_PORT" "$TOKEN_PORT" "$ONLY" > "$RUN/out" 2> "$RUN/$client-$layout.err" || true
  while read -r name; do
    wanted "$name" || continue
    line=$(grep -E "^(PASS|FAIL) $client $layout $name(:|\$)" "$RUN/out" | head -n 1 || true)
    reported "$client $layout $name" "$line" "$RUN/$client-$layout.err"
  done < "$HERE/tests.txt"
}

install_both
config open > "$RUN/open.toml"
start open QWER-Q
OPEN_PORT=$PORT
echo s3cret > "$RUN/tokens"
{
  config token
  printf '[auth]\ntokens_file = "%s"\n' "$RUN/tokens"
} > "$RUN/token.toml"
start token QWER-Q
TOKEN_PORT=$PORT
for client in python node; do
  for layout in documented versioned; do run_tests "$client" "$layout"; done
done
stop "${PIDS[0]}" open
stop "${PIDS[1]}" token
summary
