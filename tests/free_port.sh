# shellcheck shell=bash
# free_port: $port is a port of this machine where nobody listens, below those of outgoing connections.
next_port=$((10000 + $$ * 53 % 5000))
free_port() {
    while :; do
        next_port=$((next_port + 1))
        (exec 3<>"/dev/tcp/127.0.0.1/$next_port") 2>/dev/null || break
    done
    port=$next_port
}
