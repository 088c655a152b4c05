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
CLIENTS=(python node rust)
# shellcheck source=lib.sh
. "$HERE/lib.sh"

queues() {
  local c w name
  for c in "${CLIENTS[@]}"; do
    for name in $(cat "$HERE/tests.txt") credit-exact-other anonymous-terminus-a anonymous-terminus-b \
      transaction-commit-to transaction-rollback-to route-topic-b; do echo "interop-$c-$name"; done
    for w in "${CLIENTS[@]}"; do echo "interop-exchange-$w-$c"; done
  done
}

# configure NAME AUTO_CREATE
configure() {
  {
    config "$1"
    printf '[defaults]\nauto_create_queues = %s\n\n[auth]\nusers_file = "%s"\n' "$2" "$RUN/users"
    local q
    if [ "$2" = false ]; then
      for q in $(queues); do printf '\n[[queue]]\nname = "%s"\n' "$q"; done
      for q in "${CLIENTS[@]}"; do exchanges "interop-$q"; done
    fi
  } > "$RUN/$1.toml"
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
    reported "$c $name" "$line" "$RUN/$c.err"
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

install_both --no-deps
cp "$HERE/messages.json" "$WORK/"
CARGO_TARGET_DIR=$TARGET cargo build --quiet --locked --manifest-path "$HERE/rust/Cargo.toml"
echo guest:guest > "$RUN/users"
configure declared false
configure auto true
start declared AMQP
DECLARED_PORT=$PORT
start auto AMQP
AUTO_PORT=$PORT
PORT=$DECLARED_PORT
for c in "${CLIENTS[@]}"; do run_tests "$c"; done
if wanted exchange; then
  for w in "${CLIENTS[@]}"; do for r in "${CLIENTS[@]}"; do run_exchange "$w" "$r"; done; done
fi
stop "${PIDS[0]}" declared
stop "${PIDS[1]}" auto
summary
