#!/usr/bin/env bash
# slurm/'s scripts without a Slurm: shellcheck, what is handed to sbatch at each site, which StarPU variables
# there are, and what is said of a site's file that is wrong.
# shellcheck disable=SC2154  # $top_srcdir, $STARSTEP: make check's
. "${srcdir:-.}/tests/common.sh"

slurm=$top_srcdir/slurm
cp -R "$slurm" "$work/slurm" || exit 99
chmod -R u+w "$work/slurm"

if command -v shellcheck >/dev/null; then
    cd "$slurm" || exit 99
    run shellcheck -x -P .. -- *.sh *.conf sites/*.conf ../tests/test_slurm*.sh ../tests/slurm_cluster.sh
    check "shellcheck" [ $code = 0 ] || cat "$work/out"
else
    echo "shellcheck is not here"
fi

# No job without a home, a user or a port of its own
what="no home paths, no fixed port"
# shellcheck disable=SC2016  # as written
if grep -nE '/home/|~/|\$HOME/|MASTER_PORT=|--port' -r "$slurm" --include='*.sh' --include='*.conf'; then
    fail "$what"
else
    ok "$what"
fi

# Every variable of StarPU that env.sh names is read by the StarPU that is there; those of GPUs only by one
# with CUDA.
library=$(ldd "${STARSTEP%/*}/.libs/libstarstep.so" 2>/dev/null | sed -n 's/.*libstarpu[^ ]* => \([^ ]*\) .*/\1/p' | head -n 1)
if [ -s "$library" ]; then
    while read -r name; do
        case $name in
        *CUDA*) continue ;;
        esac
        if ! grep -qaF "$name" "$library"; then
            fail "$library knows no $name"
        fi
    done < <(grep -oE 'STARPU_[A-Z_]+' "$slurm/env.sh" | sort -u)
    ok "StarPU's variables exist"
fi

# A sbatch that writes down its arguments, one a line
mkdir "$work/bin"
cat >"$work/bin/sbatch" <<END
#!/bin/bash
printf '%s\n' "\$@" >"$work/args"
echo 17
#!/bin/bash
printf '%s\n' "\$@" >"$work/args"
echo 17
END
printf '#!/bin/bash\necho a-name\n' >"$work/bin/squeue"
chmod +x "$work/bin"/*
PATH=$work/bin:$PATH
cd "$work" || exit 99

# submits WHAT SCRIPT OPTION...: these are among sbatch's options
submits() {
    local script=$2 option
    what=$1
    shift 2
    rm -f "$work/args"
    run bash "$work/slurm/$script" --sbatch=--hold --epochs 3
    if [ $code -ne 0 ]; then
        fail "$what: exit code $code"
        return
    fi
    for option in "$@" --hold; do
        grep -qxF -e "$option" "$work/args" || { fail "$what: no $option in $(tr '\n' ' ' <"$work/args")"; return; }
    done
    if [ "$(tail -n 2 "$work/args" | tr '\n' ' ')" = "--epochs 3 " ]; then
        ok "$what: $(tr '\n' ' ' <"$work/args" | cut -c 1-180)"
    else
        fail "$what: the run's own options are not last"
    fi
}

# refuses WHAT PATTERN SED-SCRIPT: a site's file changed like that is refused, in one line
refuses() {
    what=$1
    sed "$3" "$slurm/site.conf" >"$work/bad.conf"
    STARSTEP_SITE=$work/bad.conf run bash "$work/slurm/4gpu.sh"
    if [ $code = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q -e "$2" "$work/err"; then
        ok "$what: $(sed "s,$work/,," "$work/err")"
    else
        fail "$what: exit code $code, no line with \"$2\""
    fi
}

for site in gh200-slingshot infiniband-a100-v100; do
    export STARSTEP_SITE=$slurm/sites/$site.conf
    run bash "$work/slurm/4gpu.sh"
    check "$site as it is: says what is to be filled in" grep -q 'left to fill in: [0-9]*:' "$work/err"
done
sed "s,FILL_IN,mine,; s,^PROJECT=.*,PROJECT=$work/project," "$slurm/sites/gh200-slingshot.conf" >"$work/gh200.conf"
export STARSTEP_SITE=$work/gh200.conf
submits "GH200, 2 nodes" 2node.sh --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72 --mem=440G \
    --account=mine --partition=accel --signal=B:USR1@300
submits "GH200, 1 GPU" 1gpu.sh --ntasks-per-node=1 --gpus-per-node=1 --cpus-per-task=72 --mem=110G
submits "GH200, CPUs" cpu.sh --ntasks-per-node=4 --cpus-per-task=72
check "CPUs: no GPU is asked for" eval "! grep -q -e --gpus '$work/args'"
sed 's,FILL_IN,mine,; s,^GPU_TYPE=,GPU_TYPE=a100,' "$slurm/sites/infiniband-a100-v100.conf" >"$work/ib.conf"
export STARSTEP_SITE=$work/ib.conf
submits "InfiniBand, 2 GPUs" 2gpu.sh --gpus-per-node=a100:2 --constraint=a100 --mem=128G --cpus-per-task=8

refuses "no such launcher" 'MPI is "pmi9"' 's/^MPI=auto/MPI=pmi9/'
refuses "no number" 'GPUS_PER_NODE is "four"' 's/^GPUS_PER_NODE=4/GPUS_PER_NODE=four/'
refuses "no fabric" 'FABRIC is "token-ring"' 's/^FABRIC=none/FABRIC=token-ring/'
refuses "no size" 'MEMORY_PER_TASK is "much"' 's/^MEMORY_PER_TASK=/MEMORY_PER_TASK=much/'
STARSTEP_SITE=$work/none.conf run bash "$work/slurm/4gpu.sh"
check "no file" grep -q "none.conf cannot be read" "$work/err"

finish
