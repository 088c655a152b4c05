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
[ $# -ge 1 ] && [ -x "$1" ] || { echo "usage: run.sh QQD_BINARY [TEST,TEST...]" >&2; exit 2; }
QQD=$(realpath "$1")
ONLY=${2:-}
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$WORK"
RUN=$(mktemp -d "$WORK/run.XXXXXX")
PIDS=()
PASSED=0
FAILED=0

finish() {
  local pid
  for pid in "${PIDS[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
}
trap finish EXIT

pass() { PASSED=$((PASSED + 1)); echo "PASS $1"; }
fail() { FAILED=$((FAILED + 1)); echo "FAIL $1"; }

# install NAME FILE COMMAND...: runs the command when the file is not the one that it was last run for
install() {
  local want
  want=$(cksum < "$2")
  [ "$(cat "$WORK/$1.installed" 2> /dev/null)" != "$want" ] || return 0
  "${@:3}"
  echo "$want" > "$WORK/$1.installed"
}

python_install() {
  rm -rf "$WORK/venv"
  python3 -m venv "$WORK/venv"
  "$WORK/venv/bin/pip" install --quiet --disable-pip-version-check -r "$HERE/python/requirements.txt"
}

node_install() { (cd "$WORK/node" && npm ci --silent); }

# start NAME: starts a daemon with NAME.toml on any port, and sets PORT to that of QWER-Q
start() {
  cat > "$RUN/$1.toml" << TOML
[server]
bind_addr = "127.0.0.1"
amqp_port = 0
binary_port = 0

[limits]
disk_free_min = 0

[management]
enabled = false

[storage]
backend = "${STORE:-sqlite}"
path = "$RUN/$1-data"

[logging]
level = "info"
TOML
  cat >> "$RUN/$1.toml"
  "$QQD" --config "$RUN/$1.toml" > "$RUN/$1.log" 2>&1 < /dev/null &
  PIDS+=($!)
  local pid=$! _
  for _ in $(seq 200); do
    PORT=$(sed -n 's/.*QWER-Q on 127\.0\.0\.1:\([0-9]*\),.*/\1/p' "$RUN/$1.log" | head -n 1)
    [ -z "$PORT" ] || return 0
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.05
  done
  echo "qqd did not start with $RUN/$1.toml:" >&2
  cat "$RUN/$1.log" >&2
  exit 2
}

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
    if [ -n "$ONLY" ] && [[ ",$ONLY," != *",$name,"* ]]; then continue; fi
    line=$(grep -E "^(PASS|FAIL) $client $layout $name(:|\$)" "$RUN/out" | head -n 1 || true)
    case $line in
      PASS*) pass "${line#PASS }" ;;
      FAIL*) fail "${line#FAIL }" ;;
      *) fail "$client $layout $name: the client said nothing (see $RUN/$client-$layout.err)" ;;
    esac
  done < "$HERE/tests.txt"
}

stop() {
  local status=0
  if ! kill -TERM "$1" 2> /dev/null; then
    fail "daemon $2: gone before its end"
    return
  fi
  wait "$1" || status=$?
  if [ "$status" = 0 ]; then pass "daemon $2 ends with status 0"; else fail "daemon $2: ended with status $status"; fi
}

mkdir -p "$WORK/node"
cp "$HERE"/node/*.js "$HERE"/node/package.json "$HERE"/node/package-lock.json "$HERE"/node/.npmrc "$WORK/node/"
install python "$HERE/python/requirements.txt" python_install
install node "$HERE/node/package-lock.json" node_install
start open < /dev/null
OPEN_PORT=$PORT
echo s3cret > "$RUN/tokens"
start token << TOML

[auth]
tokens_file = "$RUN/tokens"
TOML
TOKEN_PORT=$PORT
for client in python node; do
  for layout in documented versioned; do run_tests "$client" "$layout"; done
done
stop "${PIDS[0]}" open
stop "${PIDS[1]}" token
PIDS=()
[ "$FAILED" != 0 ] || rm -rf "$RUN"
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
