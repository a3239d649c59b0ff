# shellcheck shell=bash
# doctor_common.sh: shared helpers of the tests of starstep doctor. Source it; it sources common.sh.
# shellcheck source=tests/common.sh
. "${srcdir:-.}/tests/common.sh"
# shellcheck source=tests/free_port.sh
. "${srcdir:-.}/tests/free_port.sh"
for name in $(env | sed -n 's/^\(\(NCCL\|FI\|STARSTEP\|UCX\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
unset OMP_NUM_THREADS XDG_CACHE_HOME MASTER_ADDR MASTER_PORT LOADEDMODULES
# Sanitizers require to be the first library unless this check is off.
export ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS"
export STARSTEP_SECRET='a secret for this test' HOME=$work/home TMPDIR=$work
mkdir "$HOME"
doctor=("$STARSTEP" doctor --seconds 4 --timeout 20)

# found WHAT CODE VERDICT CHECK PATTERN: the last run exited with CODE and its output has a line of VERDICT and CHECK
# that matches PATTERN, with advice unless fine, and one verdict; the rest depends on the machine and is not checked
found() {
    local what=$1 want=$2 verdict=$3 check=$4 pattern=$5 line
    line=$(grep -m 1 "^$verdict  *$check  .*$pattern" "$work/out")
    if [ $code -ne "$want" ]; then
        fail "$what: exit code $code, not $want"
    elif [ -z "$line" ]; then
        fail "$what: no $verdict $check that matches \"$pattern\""
    elif [ "$verdict" != fine ] && ! grep -A 1 -F -e "$line" "$work/out" | grep -q '^  *do: '; then
        fail "$what: no advice"
    elif [ "$(grep -c '^verdict: ' "$work/out")" -ne 1 ]; then
        fail "$what: not exactly one verdict"
    else
        ok "$what"
        printf '%-40s %s\n' "$what" "$(tr -s ' ' <<<"$line" | cut -c 1-160)" >>"$work/table"
    fi
}

# provoke WHAT CODE VERDICT CHECK PATTERN COMMAND...
provoke() {
    run "${@:6}"
    found "${@:1:5}"
}

# pair FIRST... -- SECOND...: run FIRST as rank 0 and SECOND as rank 1; $code is rank 0's exit code
pair() {
    local first=() other
    while [ "$1" != -- ]; do
        first+=("$1")
        shift
    done
    shift
    free_port
    local place=(env WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port")
    "${place[@]}" RANK=1 LOCAL_RANK=1 timeout -k 5 "$DEADLINE" "$@" >"$work/out.1" 2>"$work/err.1" </dev/null &
    other=$!
    run "${place[@]}" RANK=0 LOCAL_RANK=0 "${first[@]}"
    wait $other
}

finish_with_table() {
    echo
    cat "$work/table"
    finish
}
