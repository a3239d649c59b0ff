#!/usr/bin/env bash
# The steps of slurm/container/build.sh in a minimal Debian 12 below FOLDER, where there is no apptainer: root is
# needed, debootstrap, and Debian's archive. Run by hand; make check leaves it out, for it takes minutes.
# usage: tests/slurm/container_chroot.sh FOLDER [CUDA_DIR]   FOLDER: new, or one of debootstrap's (its packages serve again);
#        CUDA_DIR: a toolkit with cuDNN and NCCL in it: the image for GPUs is built, else the one for CPUs
set -euo pipefail
cd "$(dirname "$0")/.."
root=${1:?which folder?} cuda=${2:-}
if ! [ -e "$root/etc/debian_version" ]; then
    # shellcheck disable=SC2016  # apt expands it
    address=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk '$2 == "bookworm" { print $1; exit }')
    debootstrap --variant=minbase bookworm "$root" "$address"
fi
# How this machine fetches: proxies and the like
apt-config dump Acquire >"$root/etc/apt/apt.conf.d/99machine"
rm -rf "$root/opt/starstep"
mkdir -p "$root/opt/starstep/src"
git archive HEAD | tar -x -C "$root/opt/starstep/src"
# inside COMMAND...: there, with processes and mounts of its own
inside() {
    # shellcheck disable=SC2016  # the shell below expands it
    unshare --mount --pid --fork sh -euc '
        root=$1 cuda=$2
        shift 2
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount --bind -o ro /sys "$root/sys"
        if [ -n "$cuda" ]; then
            mkdir -p "$root/usr/local/cuda"
            mount --bind -o ro "$cuda" "$root/usr/local/cuda"
        fi
        exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            STARSTEP_CONFIGURE_FLAGS="${STARSTEP_CONFIGURE_FLAGS:-}" chroot "$root" "$@"' - "$root" "$cuda" "$@"
}
inside /opt/starstep/src/slurm/container/build.sh source
if [ -n "$cuda" ]; then
    inside /opt/starstep/src/slurm/container/build.sh gpu
else
    inside /opt/starstep/src/slurm/container/build.sh cpu
    inside /opt/starstep/bin/starstep data make cifar100 --out /tmp/data --train 80 --test 16
    inside /opt/starstep/bin/starstep train --data-dir /tmp/data --width 2,2,2,2 --batch-size 8 --epochs 1
fi
inside /opt/starstep/share/starstep/slurm/1gpu.sh --help
inside sh -c 'ls -A /opt/starstep /opt/starstep/src; du -sh /opt/starstep'
