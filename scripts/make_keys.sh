#!/usr/bin/env bash
# Keys of a federation: an authority and a certificate for the SuperLink, and a key pair for each SuperNode.
#   scripts/make_keys.sh FOLDER CLIENTS [HOST ...]     HOST: names or addresses of the SuperLink (127.0.0.1, localhost)
# What exists is kept. ca.key and the client-*.key are secrets; a client needs ca.crt and its own key alone.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
for tool in openssl ssh-keygen; do
    command -v $tool >/dev/null || { echo "error: $tool is needed; install it and try again" >&2; exit 2; }
done
folder=$1 clients=$2
shift 2
umask 077
mkdir -p "$folder"
names=
for host in 127.0.0.1 localhost "$@"; do
    [[ $host =~ ^[0-9.]+$|: ]] && names+=",IP:$host" || names+=",DNS:$host"
done
quietly() { local said; said=$("$@" 2>&1) || { echo "$said" >&2; echo "error: $1 failed" >&2; exit 1; }; }
if [ ! -f "$folder/ca.crt" ]; then
    quietly openssl req -x509 -newkey rsa:4096 -nodes -days 365 -subj '/CN=virtual-tf authority' \
        -addext 'keyUsage=critical,keyCertSign,cRLSign' -keyout "$folder/ca.key" -out "$folder/ca.crt"
fi
if [ ! -f "$folder/server.pem" ]; then
    quietly openssl req -new -newkey rsa:4096 -nodes -subj '/CN=virtual-tf superlink' \
        -keyout "$folder/server.key" -out "$folder/server.csr"
    echo "subjectAltName=${names#,}" > "$folder/server.names"
    quietly openssl x509 -req -in "$folder/server.csr" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -CAcreateserial \
        -days 365 -extfile "$folder/server.names" -out "$folder/server.pem"
    rm "$folder/server.csr"
elif [ "$(cat "$folder/server.names" 2>/dev/null)" != "subjectAltName=${names#,}" ]; then
    echo "error: $folder/server.pem is for other hosts; remove it to make it anew for ${names#,}" >&2
    exit 2
fi
for ((i = 0; i < clients; i++)); do
    if [ ! -f "$folder/client-$i.key" ]; then
        ssh-keygen -q -t ecdsa -b 384 -N '' -C "client $i" -f "$folder/client-$i.key"
        mv "$folder/client-$i.key.pub" "$folder/client-$i.pub"
    fi
done
