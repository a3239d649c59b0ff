# two_hosts.sh: two network namespaces of this machine, joined by a link, as two hosts with names and
# addresses of their own. Source it after common.sh. Needs root and iproute2.
id=ss$$
near=${id}n far=${id}f # namespaces, and with "-e" their ends of the link
near_address=10.231.7.1 far_address=10.231.7.2

# Open MPI's daemons in the other namespace end by themselves much later.
end_daemons() {
    local pid
    for pid in $(ip netns pids "$far") $(ip netns pids "$near"); do
        kill -KILL "$pid"
    done 2>/dev/null
}

remove_hosts() {
    end_daemons
    ip netns del "$near"
    ip netns del "$far"
} 2>/dev/null

# make_hosts: 1 and a reason in $work/err where this cannot be done
make_hosts() {
    [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null || return 1
    trap 'remove_hosts; cleanup' EXIT
    ip netns add "$near" && ip netns add "$far" &&
        ip link add "$near-e" netns "$near" type veth peer name "$far-e" netns "$far" &&
        ip -n "$near" addr add "$near_address/24" dev "$near-e" &&
        ip -n "$far" addr add "$far_address/24" dev "$far-e" &&
        ip -n "$near" link set lo up && ip -n "$far" link set lo up &&
        link up && on_host "$near" true || return 1
    # What mpiexec calls in place of ssh: HOST COMMAND
    cat >"$work/agent" <<END
#!/bin/sh
shift
exec ip netns exec $far unshare --uts sh -c "hostname $far; \$*"
END
    chmod +x "$work/agent"
} 2>"$work/err"

link() {
    ip -n "$near" link set "$near-e" "$1" && ip -n "$far" link set "$far-e" "$1"
}

# on_host NAME COMMAND...: there, under a host name of its own
on_host() {
    local name=$1
    shift
    ip netns exec "$name" unshare --uts sh -c "hostname $name"'; exec "$@"' sh "$@"
}
