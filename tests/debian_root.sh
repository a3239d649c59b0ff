# shellcheck shell=bash
# A minimal Debian in a folder, for tests of behavior on other machines. Needs root, debootstrap and Debian's archive.

# debian_root FOLDER SUITE: install SUITE in FOLDER, unless it is installed.
debian_root() {
    local address
    if ! [ -e "$1/etc/debian_version" ]; then
        # shellcheck disable=SC2016  # apt expands it
        address=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' |
            awk '$2 !~ /-/ { print $1; exit }')
        debootstrap --variant=minbase "$2" "$1" ${address:+"$address"} || return
    fi
    # This machine's download settings, such as proxies
    apt-config dump Acquire >"$1/etc/apt/apt.conf.d/99machine"
    cp -L /etc/resolv.conf /etc/hosts "$1/etc/"
}

# in_root FOLDER COMMAND...: run COMMAND in it, in separate PID and mount namespaces. MOUNT=FROM:TO mounts another
# folder of this machine read-only.
in_root() {
    # shellcheck disable=SC2016  # the shell below expands it
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1
        shift
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount --bind -o ro /sys "$root/sys"
        mount -t tmpfs shm "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
        if [ -n "${MOUNT:-}" ]; then
            mkdir -p "$root${MOUNT#*:}"
            mount --bind -o ro "${MOUNT%%:*}" "$root${MOUNT#*:}"
        fi
        exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            STARSTEP_CONFIGURE_FLAGS="${STARSTEP_CONFIGURE_FLAGS:-}" chroot "$root" "$@"' - "$@"
}
