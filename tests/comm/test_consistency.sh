#!/usr/bin/env bash
# Consistency of ranks: program, library, options, data, device. Rank 0 must report a difference in each of
# these and accept differences that are permitted.
uses_gpu=yes
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
only_emulated_gpus
export SS_HOSTGPU_DEVICES=0
EQUAL_RANKS=${EQUAL_RANKS:-./tests/comm/consistency_ranks}

if ! have_ranks; then
    echo "skipped: no mpiexec, or a build without MPI"
    exit 77
fi

# says WHAT CODE PATTERN: the last run ended with this code and one error line that matches the pattern
says() {
    local what=$1
    if [ $code -ne "$2" ]; then
        fail "$what: exit code $code"
    elif [ "$(grep -c '^starstep: error: ' "$work/err")" -ne 1 ] ||
        ! grep -q "^starstep: error: \[rank 0\] $3" "$work/err"; then
        fail "$what: not one error line with \"$3\""
    else
        ok "$what: $(sed -n 's/^starstep: error: //p' "$work/err" | cut -c 1-150)"
    fi
}

# The comparison itself, three ranks
equal() {
    run "$MPIEXEC" -n "$1" "$EQUAL_RANKS" "$2"
}
for mode in same shown; do
    equal 3 $mode
    check "200 options, $mode: one exchange" [ $code -eq 0 ]
done
equal 3 value
says "a value" 3 'option --o100 differs: rank 0 has here, rank 2 has there; do something$'
equal 3 missing
says "fewer options" 3 'rank 0 checks option --o199 while rank 2 checks nothing more; start all ranks with'
equal 3 more
says "more options" 3 'rank 0 checks nothing more while rank 2 checks option --o200; start all ranks with'
equal 3 name
says "another option" 3 'rank 0 checks option --o100 while rank 2 checks option --other; start all ranks with'
equal 3 long
says "the last of 100000 characters" 3 'option --o101 differs: rank 0 has xxx'

equal 3 options
check "a difference in each option is reported by name" [ $code -eq 0 ]

# The whole program
make_data 64 16
options=(--data-dir "$work/data" --width 1,1,1,1 --batch-size 12 --epochs 1 --max-steps 2 --timeout 60)
timeout 60 "$STARSTEP" data make cifar100 --out "$work/other" --train 64 --test 16 --seed 7 >/dev/null || exit 99
cp -r "$work/data" "$work/other-test"
cp "$work/other/test.bin" "$work/other-test/"

run "$STARSTEP" info
program=$(sed -n 's/^program: *\(.*\), sha256 .*/\1/p' "$work/out")
library=$(sed -n 's/^library: *\(.*\), sha256 .*/\1/p' "$work/out")
sum_of() {
    sha256sum <"$1" | cut -d ' ' -f 1
}
check "info: checksum of the program" grep -q "^program: .*, sha256 $(sum_of "$program")$" "$work/out"
[ -z "$library" ] ||
    check "info: checksum of the library" grep -q "^library: .*, sha256 $(sum_of "$library")$" "$work/out"

# mixed COMMAND...: rank 0 runs the program, ranks 1 and 2 run COMMAND
mixed() {
    either 3 "$STARSTEP" train "${options[@]}" or "$@" train "${options[@]}"
}
cp "$program" "$work/same"
cp "$program" "$work/changed"
printf x >>"$work/changed"
libraries=$(dirname "$program")
[ -z "$library" ] || libraries=$(dirname "$library")
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
mixed "$work/same"
check "a copy of the program elsewhere" [ $code -eq 0 ]
mixed "$work/changed"
says "another program" 1 "program differs: rank 0 has [0-9a-f]\{12\} ($program), rank 1 has [0-9a-f]\{12\} ($work/changed) (1 more rank differs from rank 0); install the same build on all nodes$"
if [ -n "$library" ]; then
    # The sanitizer must be the first library.
    export ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS"
    cp "$library" "$work/${library##*/}"
    mixed env LD_PRELOAD="$work/${library##*/}" "$STARSTEP"
    check "a copy of the library elsewhere" [ $code -eq 0 ]
    printf x >>"$work/${library##*/}"
    mixed env LD_PRELOAD="$work/${library##*/}" "$STARSTEP"
    says "another library" 1 "libstarstep differs: rank 0 has [0-9a-f]\{12\} ($library), rank 1 has [0-9a-f]\{12\} ($work/.*install the same build"
fi

# changed NAME=VALUE... -- OPTION...: ranks 1 and 2 run with these variables and options
changed() {
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    either 3 "$STARSTEP" train "${options[@]}" or env "${variables[@]}" "$STARSTEP" train "${options[@]}" "$@"
}
changed -- --lr-gamma 0.5
says "an option" 1 'option --lr-gamma differs: rank 0 has 0.1[0-9]*, rank 1 has 0.5 (1 more rank differs from rank 0); give all ranks the same$'
changed -- --show-ranks
says "a flag" 1 'option --show-ranks differs: rank 0 has 0, rank 1 has 1'
changed -- --data-dir "$work/other"
says "training sets" 1 'content of the training set differs: rank 0 has [0-9a-f]*, rank 1 has [0-9a-f]* (1 more rank differs from rank 0); copy the same'
changed -- --data-dir "$work/other-test"
says "test sets" 1 'content of the test set differs: rank 0 has [0-9a-f]*, rank 1 has [0-9a-f]* '
cp -r "$work/data" "$work/copy"
changed OMP_NUM_THREADS=2 -- --data-dir "$work/copy" --workers 2 --threads 1
check "own folders, workers and threads" [ $code -eq 0 ]
if [ -n "$emulation" ]; then
    changed SS_HOSTGPU_DEVICES=1 --
    says "devices" 1 'compute device differs: rank 0 has CPU, rank 1 has GPU'
fi

finish
