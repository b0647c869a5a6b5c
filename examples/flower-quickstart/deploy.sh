#!/usr/bin/env bash
# A federation on this machine, over TLS and with authenticated nodes: a SuperLink, three SuperNodes and one run.
# Everything it writes goes to federation/ (or $FEDERATION), and everything that it starts ends with it.
#
#   ./deploy.sh [flwr run's options, as: --run-config 'method="delta" num-server-rounds=10']
set -euo pipefail
cd "$(dirname "$0")"

here=${FEDERATION:-$PWD/federation}
port=${PORT:-8443}
nodes=3

# everything is installed already: nothing is fetched, and nothing is reported to anybody
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_HOME=$here/flwr FEDCODE_MEMORY=$here/memory
export OMP_NUM_THREADS=1 # three clients train on this machine at the same time

mkdir -p "$here/flwr"
[ -e "$here/keys/ca.crt" ] || python credentials.py "$here/keys" "$nodes"
cat >"$FLWR_HOME/config.toml" <<TOML
[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:$port"
root-certificates = "$here/keys/ca.crt"
TOML

started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait || true' EXIT

flower-superlink --host 127.0.0.1 --port "$port" --enable-supernode-auth \
	--ssl-ca-certfile "$here/keys/ca.crt" --ssl-certfile "$here/keys/server.crt" --ssl-keyfile "$here/keys/server.key" \
	>"$here/superlink.log" 2>&1 &
started+=($!)

# a node is known by its public key
for node in $(seq 0 $((nodes - 1))); do
	until flwr supernode register "$here/keys/node-$node.pub" here >"$here/register.log" 2>&1; do
		kill -0 "${started[0]}" || { cat "$here/superlink.log" >&2; exit 1; }
		sleep 0.5 # the SuperLink is not up yet
	done
	flower-supernode --superlink "127.0.0.1:$port" --root-certificates "$here/keys/ca.crt" \
		--auth-supernode-private-key "$here/keys/node-$node" --port $((port + 1 + node)) \
		--node-config "partition-id=$node num-partitions=$nodes" >"$here/node-$node.log" 2>&1 &
	started+=($!)
done

flwr run . here --stream --run-config "directory=\"$here/runs\"" "$@"
