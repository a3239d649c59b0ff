#!/bin/bash
# build.sh: the build steps of starstep.def, which run inside the image.
# usage: build.sh source    on Debian: download StarPU's source to starpu-source/ of this source tree
#        build.sh gpu|cpu   on Debian or Ubuntu, as root: build this source tree and StarPU, install to /opt/starstep,
#                           and remove files needed only for the build
# The source tree must be /opt/starstep/src, because StarPU remains installed in it.
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

# Images come without package lists, from which quickstart gets the address of the archive.
apt-get update
if [ "$kind" = source ]; then
    ./quickstart --no-cuda source
    exit
fi

# quickstart searches cuDNN with gcc before it installs packages, and uses Debian's package name of the JPEG library,
# which differs on Ubuntu. libjpeg-dev exists on both, and quickstart then finds the library with pkg-config.
apt-get install -y --no-install-recommends gcc libc6-dev pkg-config libjpeg-dev
tarball=$(find starpu-source -name '*.tar.*' 2>/dev/null | head -n 1)
if [ -n "$tarball" ]; then export STARPU_TARBALL=$PWD/$tarball; fi
# On GPUs, ranks use TCP for control and NCCL for all-reduces, so the image needs no MPI compatible with the host's.
case $kind in
gpu)
    export STARSTEP_CONFIGURE_FLAGS="--prefix=$root --without-mpi --without-onednn ${STARSTEP_CONFIGURE_FLAGS:-}"
    # Dependencies of the host's libcxi and libfabric for Slingshot, as in CSCS's images (cscs-docs, 2026-08).
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
