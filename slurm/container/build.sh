#!/bin/bash
# build.sh: what starstep.def does inside of the image, in plain shell.
# usage: build.sh source    on Debian: fetch StarPU's source to starpu-source/ of this source tree
#        build.sh gpu|cpu   on Debian or Ubuntu, as root: build this source tree and StarPU, install to /opt/starstep,
#                           and remove what only the build needed
# The source tree must be /opt/starstep/src: StarPU stays in it.
set -euo pipefail

usage() {
    sed -n '2,/^# The source/s/^# \{0,1\}//p' "$0"
}

die() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

root=/opt/starstep
kind=${1:-}
case $kind in
source | gpu | cpu) ;;
--help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
[ "$(cd "$(dirname "$0")/../.." && pwd)" = $root/src ] || die "the source tree must be $root/src"
cd $root/src
export DEBIAN_FRONTEND=noninteractive

# Images come without lists of packages, from which quickstart learns where the archive is.
apt-get update
if [ "$kind" = source ]; then
    ./quickstart --no-cuda source
    exit
fi

# quickstart looks for cuDNN with gcc before it installs anything, and names Debian's package of the JPEG library,
# which Ubuntu calls otherwise: both know this one, and pkg-config tells quickstart that it is there.
apt-get install -y --no-install-recommends gcc libc6-dev pkg-config libjpeg-dev
tarball=$(find starpu-source -name '*.tar.*' 2>/dev/null | head -n 1)
if [ -n "$tarball" ]; then export STARPU_TARBALL=$PWD/$tarball; fi
# On GPUs ranks meet over TCP and sum with NCCL: the image needs no MPI that fits the host's.
case $kind in
gpu)
    export STARSTEP_CONFIGURE_FLAGS="--prefix=$root --without-mpi --without-onednn ${STARSTEP_CONFIGURE_FLAGS:-}"
    # What the host's libcxi and libfabric need for Slingshot, as CSCS's images have it (cscs-docs, 2026-08).
    apt-get install -y --no-install-recommends libnl-3-200 libnl-genl-3-200 libjson-c5 libcurl4 \
        libyaml-0-2 libsensors5 libnuma1
    ./quickstart --cuda build
    make -C build-cuda install
    ;;
cpu)
    export STARSTEP_CONFIGURE_FLAGS="--prefix=$root ${STARSTEP_CONFIGURE_FLAGS:-}"
    ./quickstart --no-cuda build
    make -C build install
    ;;
esac
find . -mindepth 1 -maxdepth 1 ! -name '.deps-prefix*' -exec rm -rf {} +
apt-get clean
rm -rf /var/lib/apt/lists/*
$root/bin/starstep info
