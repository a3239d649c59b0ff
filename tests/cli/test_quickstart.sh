#!/usr/bin/env bash
# quickstart: it reports the accuracy on the test set; options, refusals, arguments of configure and failed steps, with
# stubs for the programs that it calls.
. "${srcdir:-.}/tests/common.sh"

make_data 256 128
starts "a short run" "$STARSTEP" train --data-dir "$work/data" --model wideresnet --width 8,8,16,16 \
    --batch-size 32 --epochs 2 --base-lr 0.1 --threads 1 --workers 1 --log-json "$work/log" \
    --checkpoint-dir "$work/run"
starts "its weights on the test set" "$STARSTEP" eval --data-dir "$work/data" --model wideresnet \
    --width 8,8,16,16 --init "$work/run/latest/model.safetensors" --threads 1 --workers 1
measured=$(sed -n 's/.*Accuracy=\([0-9.]*\).*/\1/p' "$work/out" | awk '{ printf "%.1f", 100 * $1 }')

# shellcheck disable=SC2016 # bash -c expands them
run bash -c '. "$1" && tell_accuracy "$2"' bash "$(cd "$srcdir" && pwd)/quickstart" "$work/log"
said=$(sed -n 's/.*test set \([0-9.]*\) %.*/\1/p' "$work/out")
check "it prints the accuracy on the test set: $measured %, printed $said %" [ "$said" = "$measured" ]
training=$(sed -n 's/.*"train_accuracy":\([0-9.]*\).*/\1/p' "$work/log" | tail -n 1 | awk '{ printf "%.1f", 100 * $1 }')
check "which differs from the accuracy on the training set, $training %" [ "$training" != "$measured" ]

# ---- A copy in a separate checkout. PATH contains basic tools of the machine and stubs that log their calls.

bash=$(command -v bash)
checkout=$work/checkout
tools=$work/tools # PATH
have=$work/have   # dependencies found by the stubs: modules/NAME for pkg-config, headers/NAME for gcc
mkdir -p "$checkout"/{m4,src,codelets,graphs,slurm,tests,bench,tools} "$tools" "$have"/{modules,headers}
cp "$srcdir/quickstart" "$checkout/"
# StarPU patches that add a line: one that applies, one already applied, and one that does not match the file.
patches=$checkout/tools/packaging/starpu
mkdir -p "$patches"
number=0
for name in new present different; do
    number=$((number + 1))
    printf '%s\n' "Subject: $name" --- "--- a/src/$name.c" "+++ b/src/$name.c" '@@ -1,2 +1,3 @@' ' first' "+$name" ' last' \
        >"$patches/$number-$name.patch"
done
touch "$checkout"/{configure.ac,Makefile.am,m4/ss_a.m4}
for name in awk bash cat chmod cksum cp cut dirname env find grep gzip ls mkdir mv nproc readlink rm sed sort tail tar touch; do
    ln -s "$(command -v $name)" "$tools/$name"
done

# stand_in FILE [SCRIPT]: create a stub that logs its call, then runs the script
stand_in() {
    printf '%s\n' "#!$bash" "echo \"${1##*/} \$*\" >>'$work/calls'" "work='$work' tools='$tools' have='$have'" \
        "${2:-}" >"$1"
    chmod +x "$1"
}

# shellcheck disable=SC2016 # the stubs expand them
{
    stand_in "$work/configure" 'pwd >"$work/configured-in"
if [ -e "$have/broken-configure" ]; then echo "no compiler, says configure"; exit 3; fi
touch Makefile config.status'
    stand_in "$work/starstep" '
case "$1 $*" in
data*) while [ "$1" != --out ]; do shift; done; mkdir "$2" && touch "$2/train.bin" "$2/test.bin" ;;
train*no-such*) exit 4 ;;
train*) while [ "$1" != --log-json ]; do shift; done
    printf "{\"event\":\"epoch\",\"train_accuracy\":0.9,\"val_accuracy\":0.25}\n" >"$2" ;;
esac'
    stand_in "$tools/autoreconf" 'mkdir -p build-aux && touch build-aux/ltmain.sh Makefile.in &&
cat "$work/configure" >configure && chmod +x configure'
    stand_in "$tools/make" '
case $* in
"install DESTDIR="*) # StarPU
    if [ -e "$have/broken-starpu" ]; then echo "no space, make install failed"; exit 2; fi
    mkdir -p "${2#*=}$work/checkout/.deps-prefix/lib/pkgconfig" &&
        touch "${2#*=}$work/checkout/.deps-prefix/lib/pkgconfig/starpu-1.4.pc" ;;
*" check AM_"*) printf "# PASS:  %s\n# SKIP:  1\n# XFAIL: 1\n" 3 4
    if [ -e "$have/broken-test" ]; then echo "a test failed, says make"; exit 2; fi ;;
-C*) if [ -e "$have/broken-source" ]; then echo "a syntax error, says make"; exit 2; fi
    cat "$work/starstep" >"$2/starstep" && chmod +x "$2/starstep" ;;
esac'
    stand_in "$tools/pkg-config" '
[ "$1" = --exists ] && name=${2%% *} && { [ -e "$have/modules/$name" ] || [ -e "${PKG_CONFIG_PATH:-/none}/$name.pc" ]; }'
    stand_in "$tools/gcc" 'read -r _ name; name=${name#<}; [ -e "$have/headers/${name%>}" ]'
    stand_in "$tools/clang"
    stand_in "$tools/id" 'echo 1000'
}
for name in g++ autoconf automake libtoolize file xz mpiexec mpicc python3 curl ps llvm-symbolizer; do
    stand_in "$tools/$name"
done
if command -v patch >/dev/null; then
    ln -s "$(command -v patch)" "$tools/patch"
else
    stand_in "$tools/patch"
fi
touch "$have"/modules/{hwloc,jansson,libjpeg,libpng,check,fxt} "$have"/headers/{stdlib.h,dnnl.h}
mkdir -p "$work/starpu/lib/pkgconfig"
touch "$work/starpu/lib/pkgconfig/starpu-1.4.pc"
# CUDA_HOME has priority over /usr/local/cuda.
for version in 11080 12040; do
    mkdir -p "$work/cuda-$version/include"
    touch "$work/cuda-$version/include/cuda_runtime.h"
    echo "#define CUDART_VERSION  $version" >"$work/cuda-$version/include/cuda_runtime_api.h"
done

# quick [VARIABLE=VALUE...] ARGUMENT...: run the copy
quick() {
    local variables=()
    while [[ ${1:-} == [A-Z]*=* ]]; do
        variables+=("$1")
        shift
    done
    : >"$work/calls"
    run env -i PATH="$tools" HOME="$work" "${variables[@]}" "$bash" "$checkout/quickstart" "$@"
}

# ends WHAT CODE PATTERN...: check the exit code of the last run, and that its output matches each pattern
ends() {
    local what=$1 pattern
    if [ "$code" -ne "$2" ]; then
        fail "$what: exit code $code, not $2"
        return
    fi
    for pattern in "${@:3}"; do
        if ! grep -q -e "$pattern" "$work/out" "$work/err"; then
            fail "$what: no message like \"$pattern\""
            return
        fi
    done
    ok "$what"
}

# called PATTERN, not_called PATTERN: check whether a stub was called with these arguments
# shellcheck disable=SC2317 # called by check
called() { grep -q -e "$1" "$work/calls"; }
# shellcheck disable=SC2317
not_called() { [ -s "$work/calls" ] && ! called "$1"; }

# Usage
quick
ends "without a command it prints the usage" 0 '^usage: ./quickstart .*COMMAND' '^  --no-cuda '
quick biuld
ends "an unknown command is a usage error" 2 "unknown command 'biuld'"
quick build --width 8
ends "only train takes arguments" 2 'build takes no arguments'
check "no program was called" [ ! -s "$work/calls" ]

# Contradictory options and missing dependencies
quick --aarch64 --clang build
ends "--aarch64 with --clang" 1 '--aarch64 is for CPUs and GCC'
quick --aarch64 build
ends "--aarch64 without apt" 1 'Debian.*apt-get'
quick CUDA_HOME="$work/cuda-12040" CUDNN_HOME=/cudnn --clang --cuda build
ends "--clang with --cuda" 1 'for CPUs only'
quick CUDA_HOME="$work/cuda-11080" cuda
ends "an old CUDA" 1 "version 12 or later (the one in $work/cuda-11080 is older)"
quick CUDA_HOME="$work/cuda-12040" --cuda build
ends "CUDA without cuDNN" 1 '^quickstart: --cuda: missing: cuDNN'
quick CUDA_HOME="$work/cuda-12040" CUDNN_HOME=/cudnn cuda
ends "the location of CUDA" 0 "^$work/cuda-12040\$"
if ! [ -e /usr/local/cuda/include/cuda_runtime.h ]; then
    quick --cuda build
    ends "--cuda without CUDA" 1 'missing: the CUDA toolkit'
fi
quick STARPU_DIR="$work" --no-cuda build
ends "STARPU_DIR without StarPU" 1 "STARPU_DIR=$work has no"
quick STARPU_TARBALL="$work/none.tar" --no-cuda build
ends "STARPU_TARBALL without a file" 1 "STARPU_TARBALL=$work/none.tar cannot be read"
check "configure was not run" [ ! -e "$checkout/configure" ]

# Missing packages that cannot be installed: no apt, then apt without root and sudo
rm "$have/modules/jansson" "$have/headers/dnnl.h" "$tools/curl"
for name in "no apt" "neither root nor sudo"; do
    quick --no-cuda deps
    ends "$name: it lists what is missing" 1 'continuing without file dnnl.h' 'continuing without program curl' \
        '^  module jansson  *libjansson-dev  *jansson' 'apt-get install libjansson-dev'
    check "$name: it lists no other packages" [ "$(grep -c '^  \(program\|module\|file\) ' "$work/err")" -eq 1 ]
    # shellcheck disable=SC2016 # the stub expands them
    stand_in "$tools/apt-get" '
case " $* " in
*" install "*) if [ -e "$have/broken-network" ]; then echo "no route, says apt-get"; exit 100; fi
    touch "$have/modules/jansson" "$have/headers/dnnl.h"
    cat "$0" >"$tools/curl" && chmod +x "$tools/curl" ;;
*" source "*) exit 100 ;;
" indextargets"*) echo "http://archive.example stable" ;;
esac'
    stand_in "$tools/dpkg-query"
    stand_in "$tools/apt-cache"
done
check "apt-get was not called" not_called '^apt-get'
for flag in --with-onednn=/folder --without-onednn; do
    quick STARSTEP_CONFIGURE_FLAGS=$flag --no-cuda deps
    check "with $flag oneDNN is not reported as missing" eval \
        "[ $code -eq 1 ] && grep -q 'module jansson' '$work/err' && ! grep -q 'file dnnl.h' '$work/err'"
done

# Installation of packages: as root, and with sudo
stand_in "$tools/id" 'echo 0'
touch "$have/broken-network"
quick STARPU_DIR="$work/starpu" --no-cuda deps
ends "apt-get fails" 1 '^packages (3 missing) .* FAILED' 'no route, says apt-get' \
    "the whole log is $checkout/.deps-build/packages.log"
rm "$have/broken-network"
# shellcheck disable=SC2016 # the stub expands it
stand_in "$tools/sudo" '[ "$2" = true ] || exec "${@:2}"'
stand_in "$tools/id" 'echo 1000'
quick STARPU_DIR="$work/starpu" --no-cuda deps
ends "sudo: packages are installed" 0 '^packages (3 missing) .* done'
check "sudo: apt-get installs the missing packages" called '^apt-get .* install libjansson-dev libdnnl-dev curl$'
check "sudo: runs apt-get" called '^sudo -n env .*apt-get .* install'
quick STARPU_DIR="$work/starpu" --no-cuda deps
ends "a second time" 0
check "no packages are installed the second time" not_called install

# The source of StarPU: from the network, from a file
if [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] && [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    quick --no-cuda deps
    ends "StarPU cannot be fetched" 1 '^StarPU: fetch the source .* FAILED' "source could not be fetched from Debian" \
        "the whole log is $checkout/.deps-build/starpu-fetch.log"
    check "apt-get was called for it" called '^apt-get .* source --download-only starpu$'
fi
rm "$tools/apt-get" "$tools/sudo"
tar -cf "$work/other.tar" -C "$checkout" src/ m4/
quick STARPU_TARBALL="$work/other.tar" --no-cuda deps
ends "another program's archive" 1 "$work/other.tar is not an archive of StarPU" \
    "the whole log is $checkout/.deps-build/starpu-unpack.log"
mkdir -p "$work/starpu-1.4/src/core"
touch "$work/starpu-1.4/src/core/workers.c"
stand_in "$work/starpu-1.4/configure" "cp ../src/*.c '$work/patched/'"
echo STARPU_EFFECTIVE_VERSION=1.4.99 >"$work/starpu-1.4/STARPU-VERSION"
printf '%s\n' first last >"$work/starpu-1.4/src/new.c"
printf '%s\n' first present last >"$work/starpu-1.4/src/present.c"
printf '%s\n' other >"$work/starpu-1.4/src/different.c"
mkdir "$work/patched"
tar -cf "$work/starpu.tar" -C "$work" starpu-1.4
touch "$have/broken-starpu"
quick STARPU_TARBALL="$work/starpu.tar" --no-cuda deps
ends "StarPU's build fails" 1 '^StarPU: build and install .* FAILED' 'no space, make install failed'
check "no StarPU is installed" [ ! -e "$checkout/.deps-prefix" ]
rm "$have/broken-starpu"
quick STARPU_TARBALL="$work/starpu.tar" --no-cuda deps
ends "StarPU is built from an archive" 0 '^StarPU: build and install .* done'
if command -v patch >/dev/null; then
    check "a patch that does not apply is reported" grep -q '^left out: .*3-different.patch .* StarPU 1.4.99$' "$work/out"
    check "no other patch is skipped" [ "$(grep -c '^left out' "$work/out")" -eq 1 ]
    check "patches are applied, once" [ "$(cat "$work/patched"/{new,present,different}.c | tr '\n' ' ')" = \
        'first new last first present last other ' ]
fi
check "without CUDA" called "^configure --prefix=$checkout/.deps-prefix --disable-cuda .*--enable-blocking-drivers"
check "it is installed in .deps-prefix" [ -e "$checkout/.deps-prefix/lib/pkgconfig/starpu-1.4.pc" ]
check "no other files are left" [ ! -e "$checkout/.deps-build" ]

# Arguments of configure. builds WHAT FOLDER ARGUMENTS OPTION...: check the folder and the arguments of the build
builds() {
    local what=$1
    quick CUDNN_HOME=/cudnn "${@:4}" build
    ends "$what" 0 '^make .* done'
    check "$what: configure's arguments" called "^configure $3\$"
    check "$what: built in $2" [ "$(cat "$work/configured-in")" = "$checkout/$2" ]
    check "$what: make runs there" called "^make -C $checkout/$2 -j"
}
builds "--no-cuda, with the StarPU built previously" build "--with-starpu=$checkout/.deps-prefix --with-cuda=no" --no-cuda
check "that StarPU is not built again" not_called 'configure --prefix'
echo "another message" | cat - "$patches/1-new.patch" >"$work/other.patch"
mv "$work/other.patch" "$patches/1-new.patch"
quick STARPU_TARBALL="$work/starpu.tar" --no-cuda deps
ends "it is rebuilt when a patch changes" 0 '^StarPU: build and install .* done'
quick --no-cuda build
check "configure is not run again with the same arguments" eval \
    "[ $code -eq 0 ] && called '^make' && not_called '^configure'"
check "nor is autoreconf" not_called autoreconf
builds "additional arguments are last" build "--with-starpu=$work/starpu --with-cuda=no --enable-a --with-cuda=/b" \
    STARSTEP_CONFIGURE_FLAGS="--enable-a --with-cuda=/b" STARPU_DIR="$work/starpu" --no-cuda
builds "STARSTEP_BUILD_DIR" elsewhere ".* --with-cuda=no" STARSTEP_BUILD_DIR=elsewhere --no-cuda
touch "$have/modules/starpu-1.4"
builds "a StarPU found by pkg-config" build "--with-starpu=guess --with-cuda=no" --no-cuda
rm "$have/modules/starpu-1.4"
builds "--cuda" build-cuda ".* --with-cuda=$work/cuda-12040" CUDA_HOME="$work/cuda-12040" STARPU_DIR="$work/starpu" --cuda
builds "--clang" build-clang ".* --with-cuda=no CC=clang CXX=clang++" --clang
stand_in "$tools/nvidia-smi"
builds "a GPU and CUDA" build-cuda ".* --with-cuda=$work/cuda-12040 --enable-a" CUDA_HOME="$work/cuda-12040" \
    STARPU_DIR="$work/starpu" STARSTEP_CONFIGURE_FLAGS=--enable-a
builds "a GPU and an old CUDA" build ".* --with-cuda=no --enable-b" CUDA_HOME="$work/cuda-11080" \
    STARSTEP_CONFIGURE_FLAGS=--enable-b
ends "it prints why GPUs are not used" 0 'found an NVIDIA driver, but not a CUDA toolkit of version 12 or later'
echo "another StarPU" >"$checkout/.deps-prefix/.starstep-stamp"
quick STARPU_TARBALL="$work/starpu.tar" --no-cuda deps
ends "a StarPU built with other flags is replaced" 0 '^StarPU: build and install .* done'

# Failed steps. --enable-b was the argument of the last build.
touch "$have/broken-configure"
for name in --enable-c --enable-c --enable-b; do
    quick STARSTEP_CONFIGURE_FLAGS=$name --no-cuda build
    ends "configure fails, $name" 1 '^configure .* FAILED' 'no compiler, says configure' \
        "the whole log is $checkout/build/configure.log"
    check "make is not run, $name" not_called '^make'
done
rm "$have/broken-configure"
touch "$have/broken-source"
quick --no-cuda build
ends "make fails" 1 '^make .* FAILED' 'a syntax error, says make' "the whole log is $checkout/build/make.log"
rm "$have/broken-source"
touch "$have/broken-test"
quick --no-cuda check
ends "a test fails" 1 '^make check .* FAILED' 'a test failed, says make' "the whole log is $checkout/build/check.log"
rm "$have/broken-test"
quick --no-cuda check
ends "no test fails" 0 '^9 tests passed, 2 skipped$'

# Training
quick --no-cuda train --epochs 7
ends "train" 0 'Accuracy on the test set 25.0 %, chance is 10.0 %'
check "its options are last" called "^starstep train .*--data-dir $checkout/quickstart-data \
--checkpoint-dir $checkout/quickstart-run --log-json $checkout/quickstart-run/log.jsonl --epochs 7\$"
quick --no-cuda train
check "another run has a separate folder" called "^starstep train .*--checkpoint-dir $checkout/quickstart-run-2 "
check "and the same data" not_called '^starstep data'
quick --no-cuda train --resume
check "--resume uses the folder of the last run" called "^starstep train .*--checkpoint-dir $checkout/quickstart-run-2 .* --resume\$"
quick --no-cuda train --model no-such
ends "a run that fails" 4
check "is not reported as trained" eval "! grep -q trained '$work/out'"

finish
