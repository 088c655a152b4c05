#!/usr/bin/env bash
# Holds a living broker's HTTP API against its own OpenAPI document, and its metrics against Prometheus' parser.
#
#   [SEED=N] conformance/api/run.sh QQD_BINARY
#
# Starts the binary on free ports of 127.0.0.1 with the SQLite store, scrapes it (scrape.py), lets schemathesis make
# requests from /api/v1/openapi.json: no server error, and every answer is one that the document describes. Live updates
# are left out, since they never end. Ends the daemon by its pid. What it installs goes below the cargo target folder.
# The last line is `N passed, N failed`; exit status 1 when something failed, 2 when nothing could be tested.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=$(realpath -m "${CARGO_TARGET_DIR:-$HERE/../../target}")/api
[ $# = 1 ] && [ -x "$1" ] || { echo "usage: run.sh QQD_BINARY" >&2; exit 2; }
QQD=$(realpath "$1")
SEED=${SEED:-1}
# Requests that are made of each operation at most, in each way of making them.
EXAMPLES=15
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$WORK"
RUN=$(mktemp -d "$WORK/run.XXXXXX")
PASSED=0
FAILED=0

pass() { PASSED=$((PASSED + 1)); echo "PASS $1"; }
fail() { FAILED=$((FAILED + 1)); echo "FAIL $1"; }

want=$(cksum < "$HERE/requirements.txt")
if [ "$(cat "$WORK/python.installed" 2> /dev/null)" != "$want" ]; then
  rm -rf "$WORK/venv"
  python3 -m venv "$WORK/venv"
  "$WORK/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$HERE/requirements.txt"
  echo "$want" > "$WORK/python.installed"
fi

cat > "$RUN/qqd.toml" << TOML
[server]
bind_addr = "127.0.0.1"
amqp_port = 0
binary_port = 0

[management]
port = 0

[storage]
backend = "sqlite"
path = "$RUN/data"

[limits]
# How full this machine's disk is must not decide a test.
disk_free_min = "16MiB"

[logging]
level = "info"
TOML
"$QQD" --config "$RUN/qqd.toml" > "$RUN/log" 2>&1 < /dev/null &
PID=$!
# shellcheck disable=SC2064  # the pid of now is meant
trap "kill -KILL $PID 2> /dev/null || true" EXIT
URL=
for _ in $(seq 200); do
  URL=$(sed -n 's/.*HTTP API and dashboard on \(127\.0\.0\.1:[0-9]*\),.*/http:\/\/\1/p' "$RUN/log" | head -n 1)
  [ -z "$URL" ] || break
  kill -0 "$PID" 2> /dev/null || break
  sleep 0.05
done
[ -n "$URL" ] || { echo "qqd did not start:" >&2; cat "$RUN/log" >&2; exit 2; }

status=0
"$WORK/venv/bin/python" "$HERE/scrape.py" "$URL" "$HERE/../../docs/metrics.md" < /dev/null || status=$?
if [ "$status" = 0 ]; then pass "scrape"; else fail "scrape (status $status)"; fi

echo "schemathesis with seed $SEED and $EXAMPLES examples"
status=0
# What the document cannot say, such as that a queue must exist, makes sound requests fail: that is no fault.
(cd "$RUN" && SCHEMATHESIS_HOOKS="$HERE/hooks.py" timeout 240 "$WORK/venv/bin/st" run "$URL/api/v1/openapi.json" --seed "$SEED" --max-examples "$EXAMPLES" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance \
  --exclude-path /api/v1/events --exclude-path /api/v1/ws \
  --suppress-health-check all --warnings off --request-timeout 30 --no-color) < /dev/null || status=$?
if [ "$status" = 0 ]; then pass "schemathesis"; else fail "schemathesis (status $status)"; fi

status=0
kill -TERM "$PID" 2> /dev/null || status=gone
if [ "$status" = 0 ]; then wait "$PID" || status=$?; fi
if [ "$status" = 0 ]; then pass "the daemon ends with status 0"; else fail "the daemon ended with $status"; tail -n 20 "$RUN/log"; fi
trap - EXIT
[ "$FAILED" != 0 ] || rm -rf "$RUN"
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
