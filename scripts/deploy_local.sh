#!/usr/bin/env bash
# A federation on this machine: a SuperLink, N SuperNodes and a run, over loopback. Stops all that it started.
#   scripts/deploy_local.sh [-n CLIENTS] [-o FOLDER] [-s] [-w] [KEY=VALUE ...]
#     -n  number of SuperNodes, each with its part of the data set (4)
#     -o  folder of the run; its clients' folders and the processes' logs go beside it (runs/flower)
#     -s  TLS, and SuperNodes that prove who they are, with keys made for this run
#     -w  count the bytes between SuperNodes and SuperLink, in FOLDER/logs/wire.json
#   KEY=VALUE is any setting or option of the run: rounds=5 method=fedavg dataset=synthetic
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
clients=4 output=runs/flower secured= counted=
while getopts n:o:sw option; do
    case $option in
        n) clients=$OPTARG ;;
        o) output=$OPTARG ;;
        s) secured=yes ;;
        w) counted=yes ;;
        *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
prepare requirements.txt requirements-flower.txt
config=()
for pair in "$@"; do
    value=${pair#*=}
    # A string in TOML's quotes, which may not hold their like; Flower knows no escapes.
    [[ $value =~ ^(-?[0-9.]+([eE]-?[0-9]+)?|true|false)$ ]] || { [[ $value == *\"* ]] && value="'$value'"; } ||
        value="\"$value\""
    config+=("${pair%%=*}=$value")
done

# Before anything is started: Flower names no key that it does not know, and a wrong value ends in a traceback.
rounds=$(python - "clients=$clients" "${config[@]}" <<'PYTHON'
import sys
import tomllib

from virtual_tf.core import quiet

quiet.import_tensorflow()
from virtual_tf.core.errors import VirtualTfError
from virtual_tf.deploy import options
from virtual_tf.runs import driver


def read(pairs):
    config = {}
    for pair in pairs:
        try:
            (key, value), = tomllib.loads(pair).items()
        except ValueError as error:
            raise VirtualTfError(f'{pair} cannot be read ({error}); write KEY=VALUE, such as rounds=5') from None
        if key == 'output_dir' or key == 'clients' and key in config:
            raise VirtualTfError(f'{key} is given by -{"n" if key == "clients" else "o"}; leave {pair} out')
        if key in config:
            raise VirtualTfError(f'{key} is given twice; leave one out')
        config[key] = value
    return config


try:
    _, settings = options.parse(read(sys.argv[1:]))
    driver.check_names(settings)
except VirtualTfError as error:
    print(f'error: {error}', file=sys.stderr)
    sys.exit(2)
print(settings.rounds)
PYTHON
)
mkdir -p "$output"
output=$(cd "$output" && pwd)
logs=$output/logs
mkdir -p "$logs"

source scripts/flower_environment.sh
export FLWR_HOME=$output/flwr-home PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$FLWR_HOME"

# Flower's processes make sessions of their own, so neither group nor parent finds them all: what they inherit does.
mark=$$.$RANDOM.$RANDOM
ours() {
    local path
    { grep -lzxF "VIRTUAL_TF_STARTED_BY=$mark" /proc/[0-9]*/environ 2>/dev/null || true; } |
        while read -r path; do path=${path#/proc/}; echo "${path%/environ}"; done
}
signal_ours() { local pid; for pid in $(ours); do kill "-$1" "$pid" 2>/dev/null || true; done; }
stop_all() {
    trap - EXIT
    trap '' INT TERM     # a second Ctrl-C would leave processes behind
    signal_ours TERM
    for _ in {1..50}; do [ -z "$(ours)" ] && return; sleep 0.1; done
    while [ -n "$(ours)" ]; do signal_ours KILL; sleep 0.1; done
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start() { local log=$1; shift; VIRTUAL_TF_STARTED_BY=$mark setsid "$@" > "$logs/$log.log" 2>&1 & last=$!; }

# Runs a command with its output in a file; shows a line for each round, and what the server logs of that output.
follow() {
    VIRTUAL_TF_STARTED_BY=$mark exec python - "$rounds" "$output/metrics.jsonl" "$@" <<'PYTHON'
import json
import pathlib
import re
import subprocess
import sys
import time

rounds, metrics, log = sys.argv[1], *map(pathlib.Path, sys.argv[2:4])


def lines(path):
    return path.read_text(encoding='utf-8', errors='replace').split('\n')[:-1] if path.exists() else []


def told(row):
    scores = (('S', 'server/accuracy', '.1%'), ('MT', 'mt/accuracy', '.1%'), ('loss', 'train/loss', '.3f'))
    return f'round {row["round"]}/{rounds}, ' + ', '.join(
        f'{name}={"?" if row.get(key) is None else format(row[key], form).rstrip("%")}' for name, key, form in scores)


before, shown = set(lines(metrics)), 0     # the rounds of a run that is continued
with open(log, 'w') as output:
    process = subprocess.Popen(sys.argv[4:], stdout=output, stderr=subprocess.STDOUT)
while True:
    ended = process.poll() is not None
    for line in lines(log)[shown:]:
        shown += 1
        if re.match(r'(INFO|WARNING|ERROR) \d{4}-', line):
            print(line, flush=True)
    for line in lines(metrics):
        if line not in before:
            before.add(line)
            print(told(json.loads(line)), flush=True)
    if ended:
        break
    time.sleep(0.5)
PYTHON
}

free_ports() {
    python - "$1" <<'PYTHON'
import socket
import sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(('127.0.0.1', 0))
print(*(one.getsockname()[1] for one in sockets))
PYTHON
}
read -ra ports <<< "$(free_ports $((clients + 2)))"

link=(--insecure) node=(--insecure) connection='insecure = true'
if [ -n "$secured" ]; then
    keys=$output/keys
    scripts/make_keys.sh "$keys" "$clients"
    link=(--ssl-ca-certfile "$keys/ca.crt" --ssl-certfile "$keys/server.pem" --ssl-keyfile "$keys/server.key"
          --enable-supernode-auth)
    node=(--root-certificates "$keys/ca.crt")
    connection="root-certificates = \"$keys/ca.crt\""
fi
cat > "$FLWR_HOME/config.toml" <<TOML
[superlink]
default = "local"

[superlink.local]
address = "127.0.0.1:${ports[0]}"
$connection
TOML

start superlink flower-superlink "${link[@]}" --host 127.0.0.1 --port "${ports[0]}" \
    --disable-runtime-dependency-installation
superlink=$last
python - "${ports[0]}" <<'PYTHON'
import socket
import sys
import time
for _ in range(300):
    with socket.socket() as probe:
        if probe.connect_ex(('127.0.0.1', int(sys.argv[1]))) == 0:
            break
    time.sleep(0.1)
else:
    sys.exit('error: the SuperLink did not start; see logs/superlink.log')
PYTHON
door=127.0.0.1:${ports[0]}
if [ -n "$counted" ]; then
    door=127.0.0.1:${ports[$((clients + 1))]}
    start count_bytes python -m scripts.count_bytes "$door" "127.0.0.1:${ports[0]}" "$logs/wire.json"
fi
for ((i = 0; i < clients; i++)); do
    own=()
    if [ -n "$secured" ]; then
        flwr supernode register "$keys/client-$i.pub" local > "$logs/register-$i.log" 2>&1
        own=(--auth-supernode-private-key "$keys/client-$i.key")
    fi
    start "supernode-$i" flower-supernode "${node[@]}" "${own[@]}" --superlink "$door" \
        --host 127.0.0.1 --port "${ports[$((i + 1))]}" \
        --node-config "partition-id=$i state-dir=\"$output/clients/$i\""
done
settings="clients=$clients output_dir=\"$output\" ${config[*]}"
[ -z "$secured" ] || settings+=" pinned=true"
# Flower does not tell how a run ended: its summary does, so one of before must not stand for it.
[ ! -f "$output/summary.json" ] || mv "$output/summary.json" "$output/summary.before.json"
# In the background, as a shell that waits answers signals at once.
follow "$logs/run.log" flwr run virtual_tf/deploy/app local --run-config "$settings" --stream &
wait $! || true
kill -0 "$superlink" 2>/dev/null || { echo 'error: the SuperLink has ended; see logs/superlink.log' >&2; exit 1; }
if [ ! -f "$output/summary.json" ]; then
    [ ! -f "$output/summary.before.json" ] || mv "$output/summary.before.json" "$output/summary.json"
    reason=$(sed -n 's/^virtual_tf\.[a-zA-Z_.]*Error: //p; s/^│ *\(.*[^ ]\) *│$/\1/p' "$logs/run.log" | tail -1)
    echo "error: ${reason:-the run has not finished}; the logs are in $logs" >&2
    exit 1
fi
rm -f "$output/summary.before.json"
echo "results: $output"
