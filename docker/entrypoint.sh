#!/bin/sh
# Starts the broker in a container. Before the first start it makes what is needed to log in: a user (QQ_USER and
# QQ_PASSWORD, else `admin` with a random password) and a token for QWER-Q (QQ_TOKEN, else a random one). What it made up
# it prints once, to standard error; files that are there are left alone.
set -eu
umask 077

secret() { head -c 24 /dev/urandom | base64 | tr -d '+/=\n'; }

users=${QQ_AUTH_USERS_FILE:-/data/users}
if [ ! -e "$users" ]; then
  user=${QQ_USER:-admin}
  password=${QQ_PASSWORD:-}
  if [ -z "$password" ]; then
    password=$(secret)
    echo "made the user $user with the password $password, kept in $users" >&2
  fi
  printf '%s:%s\n' "$user" "$password" > "$users"
fi
tokens=${QQ_AUTH_TOKENS_FILE:-/data/tokens}
if [ ! -e "$tokens" ]; then
  token=${QQ_TOKEN:-}
  if [ -z "$token" ]; then
    token=$(secret)
    echo "made the QWER-Q token $token, kept in $tokens" >&2
  fi
  printf '%s\n' "$token" > "$tokens"
fi
# Variables with QQ_ in front are for the broker; these are not.
unset QQ_USER QQ_PASSWORD QQ_TOKEN
if [ "${1:-}" = qwer-q ]; then
  export QWERQ_AUTH_TOKEN="${QWERQ_AUTH_TOKEN:-$(head -n 1 "$tokens")}"
  if [ "${2:-}" = serve ]; then
    case " $* " in *" --bind "*) ;; *) set -- "$@" --bind 0.0.0.0 ;; esac
    case " $* " in *" --data-dir "*) ;; *) set -- "$@" --data-dir "${QQ_STORAGE_PATH:-/data/store}" ;; esac
  fi
  exec "$@"
fi
exec qqd "$@"
