# What the runs with real clients share. To be sourced by a script that has set HERE, its own folder, and WORK, where what
# it installs and writes may lie; its arguments are a qqd binary and perhaps some tests, with commas between.
#
# Sets QQD, ONLY and RUN, a folder of this run. Daemons that `start` started are killed when the script ends.

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
wanted() { [ -z "$ONLY" ] || [[ ",$ONLY," == *",$1,"* ]]; }

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
  "$WORK/venv/bin/pip" install --quiet --disable-pip-version-check "$@" -r "$HERE/python/requirements.txt"
}

node_install() { (cd "$WORK/node" && npm ci --silent); }

# install_both [PIP_OPTION...]: the clients in Python and Node
install_both() {
  mkdir -p "$WORK/node"
  cp "$HERE"/node/*.js "$HERE"/node/package.json "$HERE"/node/package-lock.json "$HERE"/node/.npmrc "$WORK/node/"
  install python "$HERE/python/requirements.txt" python_install "$@"
  install node "$HERE/node/package-lock.json" node_install
}

# config: what all daemons have in common; any free port, which their log names
config() {
  cat << TOML
[server]
bind_addr = "127.0.0.1"
amqp_port = 0
binary_port = 0

[management]
enabled = false

[storage]
backend = "${STORE:-sqlite}"
path = "$RUN/$1-data"

[limits]
# How full this machine's disk is must not decide a test.
disk_free_min = "16MiB"

[logging]
level = "info"

TOML
}

# start NAME PROTOCOL: starts a daemon with NAME.toml and sets PORT to that of the protocol
start() {
  : > "$RUN/$1.log"
  "$QQD" --config "$RUN/$1.toml" > "$RUN/$1.log" 2>&1 < /dev/null &
  PIDS+=($!)
  local pid=$! _
  for _ in $(seq 200); do
    PORT=$(sed -n "s/.*$2 on 127\.0\.0\.1:\([0-9]*\).*/\1/p" "$RUN/$1.log" | head -n 1)
    [ -z "$PORT" ] || return 0
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.05
  done
  echo "qqd did not start with $RUN/$1.toml:" >&2
  cat "$RUN/$1.log" >&2
  exit 2
}

# reported TEST LINE ERRORS: what a client said of a test; one of which it said nothing has failed
reported() {
  case $2 in
    PASS*) pass "$1" ;;
    FAIL*) fail "${2#FAIL }" ;;
    *) fail "$1: the client said nothing (see $3)" ;;
  esac
}

# stop PID NAME: a daemon ends with status 0 when it is asked to, within 10 s
stop() {
  local pid=$1 name=$2 status=0 _
  kill -TERM "$pid" 2> /dev/null || { fail "daemon $name: gone before its end: $(tail -n 1 "$RUN/$name.log")"; return; }
  for _ in $(seq 200); do
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.05
  done
  kill -KILL "$pid" 2> /dev/null && { fail "daemon $name: still there 10 s after SIGTERM"; return; }
  wait "$pid" || status=$?
  if [ "$status" = 0 ]; then pass "daemon $name ends with status 0"; else fail "daemon $name: ended with status $status"; fi
}

# summary: the last line and the exit status
summary() {
  PIDS=()
  [ "$FAILED" != 0 ] || rm -rf "$RUN"
  echo "$PASSED passed, $FAILED failed"
  [ "$FAILED" = 0 ]
}
