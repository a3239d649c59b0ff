# shellcheck shell=bash
# free_port: set $port to a port of this machine without a listener, below the range of outgoing connections.
next_port=$((10000 + $$ * 53 % 5000))
free_port() {
    while :; do
        next_port=$((next_port + 1))
        (exec 3<>"/dev/tcp/127.0.0.1/$next_port") 2>/dev/null || break
    done
    port=$next_port
}
