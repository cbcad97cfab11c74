#!/bin/sh
# Asks a LUCID server for labels with plain curl.
#
#   examples/curl.sh URL BODY.json [KEY]
#
# BODY.json is a request of POST /predict: {"rows": [{"column": value, ...}, ...]}. Prints the labels,
# one per line. KEY: an API key, if the server asks for one (better in LUCID_KEY than on the command
# line, where others can see it).
set -eu
url=${1:?usage: $0 URL BODY.json [KEY]}
body=${2:?usage: $0 URL BODY.json [KEY]}
key=${3:-${LUCID_KEY:-}}

# The key goes through a file descriptor: not into the process list either.
ask() { printf 'header = "Authorization: Bearer %s"\n' "$key" | curl --silent --show-error --config - "$@"; }

# Is it ready? (--fail: a status of 400 or more is an exit status.)
ask --fail --output /dev/null "$url/v2/health/ready" || { echo "$url is not ready" >&2; exit 1; }

# --fail-with-body: on failure the server says why: {"error": "..."}.
answer=$(ask --fail-with-body --header 'Content-Type: application/json' --data-binary "@$body" \
  "$url/predict") || { echo "$answer" >&2; exit 1; }

# {"labels":[1,0,...],"names":[...]}: the numbers between the first brackets.
echo "$answer" | sed 's/^{"labels":\[\([0-9,]*\)\].*/\1/' | tr ',' '\n'
