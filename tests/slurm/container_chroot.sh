#!/usr/bin/env bash
# Runs the steps of slurm/container/build.sh in a minimal Debian 12 in FOLDER, for machines without apptainer. Requires
# root, debootstrap and access to Debian's archive. Not part of `make check`, because it takes minutes.
# usage: tests/slurm/container_chroot.sh FOLDER [CUDA_DIR]
#        FOLDER: new, or made by debootstrap (its packages are reused)
#        CUDA_DIR: a toolkit with cuDNN and NCCL; builds the GPU image instead of the CPU image
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/debian_root.sh
root=${1:?missing argument FOLDER} cuda=${2:-}
debian_root "$root" bookworm
rm -rf "$root/opt/starstep"
mkdir -p "$root/opt/starstep/src"
git archive HEAD | tar -x -C "$root/opt/starstep/src"
inside() {
    MOUNT=${cuda:+$cuda:/usr/local/cuda} in_root "$root" "$@"
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
