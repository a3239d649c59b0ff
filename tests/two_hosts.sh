# two_hosts.sh: emulates two hosts with their own names and addresses by two network namespaces joined by a
# link. Source it after common.sh. Needs root and iproute2.
id=ss$$
near=${id}n far=${id}f # namespaces; with "-e" appended, their ends of the link
near_address=10.231.7.1 far_address=10.231.7.2

# Open MPI's daemons in the other namespace exit by themselves only much later.
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

# make_hosts: create the hosts; on failure return 1, with the reason in $work/err
make_hosts() {
    [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null || return 1
    trap 'remove_hosts; cleanup' EXIT
    ip netns add "$near" && ip netns add "$far" &&
        ip link add "$near-e" netns "$near" type veth peer name "$far-e" netns "$far" &&
        ip -n "$near" addr add "$near_address/24" dev "$near-e" &&
        ip -n "$far" addr add "$far_address/24" dev "$far-e" &&
        ip -n "$near" link set lo up && ip -n "$far" link set lo up &&
        link up && on_host "$near" true || return 1
    # Replaces ssh for mpiexec: HOST COMMAND
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

# on_host NAME COMMAND...: run COMMAND in that namespace, with NAME as host name
on_host() {
    local name=$1
    shift
    ip netns exec "$name" unshare --uts sh -c "hostname $name"'; exec "$@"' sh "$@"
}
