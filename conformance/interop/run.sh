#!/usr/bin/env bash
# Drives a qqd binary with three independent AMQP 1.0 clients: Qpid Proton (Python), rhea (Node), fe2o3-amqp (Rust).
#
#   [STORE=memory] conformance/interop/run.sh QQD_BINARY [TEST,TEST...]
#
# The store is SQLite unless the environment names another. Starts the binary twice on free ports of 127.0.0.1 (one
# daemon that knows only declared queues, one that makes queues on attach), runs every test of tests.txt with each
# client, lets each client read what each client wrote, ends the daemons by their pid. What it installs goes below the cargo target folder. The last line is `N passed, N failed`;
# exit status 1 when something failed, 2 when the tests could not be run.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TARGET=$(realpath -m "${CARGO_TARGET_DIR:-$HERE/../../target}")
WORK=$TARGET/interop
[ $# -ge 1 ] && [ -x "$1" ] || { echo "usage: run.sh QQD_BINARY [TEST,TEST...]" >&2; exit 2; }
QQD=$(realpath "$1")
ONLY=${2:-}
CLIENTS=(python node rust)
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$WORK"
RUN=$(mktemp -d "$WORK/run.XXXXXX")
PIDS=()
PASSED=0
FAILED=0

finish() {
  local pid
  for pid in "${PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
}
trap finish EXIT

pass() { PASSED=$((PASSED + 1)); echo "PASS $1"; }
fail() { FAILED=$((FAILED + 1)); echo "FAIL $1"; }
wanted() { [ -z "$ONLY" ] || [[ ",$ONLY," == *",$1,"* ]]; }

install_clients() {
  local want
  want=$(cksum < "$HERE/python/requirements.txt")
  if [ "$(cat "$WORK/python.installed" 2>/dev/null)" != "$want" ]; then
    rm -rf "$WORK/venv"
    python3 -m venv "$WORK/venv"
    "$WORK/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$HERE/python/requirements.txt"
    echo "$want" > "$WORK/python.installed"
  fi
  mkdir -p "$WORK/node"
  cp "$HERE"/node/*.js "$HERE"/node/package.json "$HERE"/node/package-lock.json "$HERE"/node/.npmrc "$WORK/node/"
  cp "$HERE/messages.json" "$WORK/"
  want=$(cksum < "$HERE/node/package-lock.json")
  if [ "$(cat "$WORK/node.installed" 2>/dev/null)" != "$want" ]; then
    (cd "$WORK/node" && npm ci --silent)
    echo "$want" > "$WORK/node.installed"
  fi
  CARGO_TARGET_DIR=$TARGET cargo build --quiet --locked --manifest-path "$HERE/rust/Cargo.toml"
}

# Below the range that outgoing sockets take their ports from.
free_ports() {
  python3 - "$1" <<'PY'
import random, socket, sys
found = []
while len(found) < int(sys.argv[1]):
    port = random.randrange(20000, 32000)
    with socket.socket() as s:
        try: s.bind(("127.0.0.1", port))
        except OSError: continue
    if port not in found: found.append(port)
print(*found)
PY
}

queues() {
  local c w name
  for c in "${CLIENTS[@]}"; do
    for name in $(cat "$HERE/tests.txt") credit-exact-other anonymous-terminus-a anonymous-terminus-b \
      transaction-commit-to transaction-rollback-to route-topic-b; do echo "interop-$c-$name"; done
    for w in "${CLIENTS[@]}"; do echo "interop-exchange-$w-$c"; done
  done
}

# config FILE PORT AUTO_CREATE
config() {
  cat > "$1" <<TOML
[server]
bind_addr = "127.0.0.1"
amqp_port = $2
binary_port = 0

[management]
enabled = false

[storage]
backend = "${STORE:-sqlite}"
path = "${1%.toml}-data"

[limits]
# How full this machine's disk is must not decide a test.
disk_free_min = "16MiB"

[defaults]
auto_create_queues = $3

[auth]
users_file = "$RUN/users"

[logging]
level = "warn"
TOML
  local q
  if [ "$3" = false ]; then
    for q in $(queues); do printf '\n[[queue]]\nname = "%s"\n' "$q" >> "$1"; done
    for q in "${CLIENTS[@]}"; do exchanges "interop-$q" >> "$1"; done
  fi
}

# exchanges PREFIX: those of one client, and a queue that is full with one message
exchanges() {
  printf '\n[[queue]]\nname = "%s-route-fanout-b"\nmax_length = 1\n' "$1"
  local kind
  for kind in topic fanout headers; do printf '\n[[exchange]]\nname = "%s-%s"\ntype = "%s"\n' "$1" "$kind" "$kind"; done
  binding "$1" topic route-topic 'routing_key = "a.*"'
  binding "$1" topic route-topic-b 'routing_key = "b.#"'
  binding "$1" fanout route-fanout ''
  binding "$1" fanout route-fanout-b ''
  binding "$1" headers route-headers 'arguments = { x-match = "all", region = "eu", size = 7 }'
}

# binding PREFIX EXCHANGE QUEUE MORE
binding() { printf '\n[[binding]]\nexchange = "%s-%s"\nqueue = "%s-%s"\n%s\n' "$1" "$2" "$1" "$3" "$4"; }

# start NAME PORT: starts a daemon with NAME.toml and waits until it takes connections
start() {
  "$QQD" --config "$RUN/$1.toml" > "$RUN/$1.log" 2>&1 < /dev/null &
  PIDS+=($!)
  local pid=$! _
  for _ in $(seq 200); do
    if (exec 3<> "/dev/tcp/127.0.0.1/$2") 2>/dev/null; then return 0; fi
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  echo "qqd did not start with $RUN/$1.toml:" >&2
  cat "$RUN/$1.log" >&2
  exit 2
}

client() {
  local which=$1
  shift
  case $which in
    python) timeout 300 "$WORK/venv/bin/python" "$HERE/python/client.py" "$@" ;;
    node) timeout 300 node "$WORK/node/client.js" "$@" ;;
    rust) timeout 300 "$TARGET/debug/qq-interop-fe2o3" "$@" --messages "$HERE/messages.json" ;;
  esac < /dev/null
}

# Every test of tests.txt must report; one that does not has failed.
run_tests() {
  local c=$1 name line
  client "$c" test --port "$PORT" --auto-port "$AUTO_PORT" --only "$ONLY" > "$RUN/$c.out" 2> "$RUN/$c.err" || true
  while read -r name; do
    wanted "$name" || continue
    line=$(grep -E "^(PASS|FAIL) $c $name(:|\$)" "$RUN/$c.out" | head -n 1 || true)
    case $line in
      PASS*) pass "$c $name" ;;
      FAIL*) fail "${line#FAIL }" ;;
      *) fail "$c $name: the client said nothing (see $RUN/$c.err)" ;;
    esac
  done < "$HERE/tests.txt"
}

run_exchange() {
  local writer=$1 reader=$2 queue=interop-exchange-$1-$2
  if ! client "$writer" put --port "$PORT" --queue "$queue" > "$RUN/put" 2>&1; then
    fail "exchange $writer to $reader: sending: $(tail -n 1 "$RUN/put")"
  elif ! client "$reader" check --port "$PORT" --queue "$queue" > "$RUN/check" 2>&1; then
    fail "exchange $writer to $reader: $(tail -n 1 "$RUN/check" | cut -c -2000)"
  else
    pass "exchange $writer to $reader"
  fi
}

stop() {
  local pid=$1 name=$2 status=0 _
  kill -TERM "$pid" 2>/dev/null || { fail "daemon $name: gone before its end: $(tail -n 1 "$RUN/$name.log")"; return; }
  for _ in $(seq 200); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null && { fail "daemon $name: still there 10 s after SIGTERM"; return; }
  wait "$pid" || status=$?
  if [ "$status" = 0 ]; then pass "daemon $name ends with status 0"; else fail "daemon $name: ended with status $status"; fi
}

install_clients
echo guest:guest > "$RUN/users"
read -r PORT AUTO_PORT <<< "$(free_ports 2)"
config "$RUN/declared.toml" "$PORT" false
config "$RUN/auto.toml" "$AUTO_PORT" true
start declared "$PORT"
start auto "$AUTO_PORT"
for c in "${CLIENTS[@]}"; do run_tests "$c"; done
if wanted exchange; then
  for w in "${CLIENTS[@]}"; do for r in "${CLIENTS[@]}"; do run_exchange "$w" "$r"; done; done
fi
stop "${PIDS[0]}" declared
stop "${PIDS[1]}" auto
PIDS=()
[ "$FAILED" != 0 ] || rm -rf "$RUN"
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
