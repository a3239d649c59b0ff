#!/usr/bin/env bash
# slurm/'s scripts without a Slurm: shellcheck, what is handed to sbatch at each site, which StarPU variables
# there are, and what is said of a site's file that is wrong, or of options that the program would not take.
# shellcheck disable=SC2154  # $top_srcdir, $STARSTEP: make check's
. "${srcdir:-.}/tests/common.sh"

slurm=$top_srcdir/slurm
cp -R "$slurm" "$work/slurm" || exit 99
chmod -R u+w "$work/slurm"

if command -v shellcheck >/dev/null; then
    cd "$slurm" || exit 99
    # The job scripts end alike (below), so what they source is looked at once.
    run shellcheck -x -P .. -- 1gpu.sh sweep.sh rank.sh *.conf sites/*.conf ../tests/slurm/test_slurm*.sh ../tests/slurm/slurm_cluster.sh
    check "shellcheck" [ $code = 0 ] || cat "$work/out"
    run shellcheck -e SC1091,SC2034 -- [1-9]*.sh cpu.sh scaling.sh trace.sh container/build.sh
    check "shellcheck of the job scripts" [ $code = 0 ] || cat "$work/out"
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

# The image's program is where the example of a site looks for it, and its steps are there.
while read -r word; do
    case $word in
    */src/*) check "the image's $word" test -x "$top_srcdir/${word#/opt/starstep/src/}" ;;
    */bin/*) check "the image's $word" grep -q "^STARSTEP=$word " "$slurm/sites/gh200-slingshot.conf" ;;
    esac
done < <(grep -oE '/opt/starstep/[a-z/]+[a-z.]+' "$slurm/container/starstep.def" | sort -u)

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
END
printf '#!/bin/bash\necho a-name\n' >"$work/bin/squeue"
chmod +x "$work/bin"/*
PATH=$work/bin:$PATH
cd "$work" || exit 99
make_data 128 16
export XDG_CONFIG_HOME=$work/config

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
    STARSTEP_SITE=$work/bad.conf stops "$what" "$2" 4gpu.sh
}

# stops WHAT PATTERN SCRIPT OPTION...: nothing is submitted, and one line says why
stops() {
    local script=$3
    what=$1
    rm -f "$work/args"
    run bash "$work/slurm/$script" "${@:4}"
    if [ $code = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] && [ ! -e "$work/args" ] && grep -q -e "$2" "$work/err"; then
        ok "$what: $(sed "s,$work/,," "$work/err" | cut -c 1-180)"
    else
        fail "$what: exit code $code, no line with \"$2\", or submitted"
    fi
}

for site in gh200-slingshot infiniband-a100-v100; do
    export STARSTEP_SITE=$slurm/sites/$site.conf
    run bash "$work/slurm/4gpu.sh"
    check "$site as it is: says what is to be filled in" grep -q 'left to fill in: [0-9]*:' "$work/err"
done
sed "s,FILL_IN,mine,; s,^PROJECT=.*,PROJECT=$work/project," "$slurm/sites/gh200-slingshot.conf" >"$work/gh200.conf"
STARSTEP_SITE=$work/gh200.conf stops "GH200, no image" 'CONTAINER names .*aarch64.sif, which is not there' 4gpu.sh
mkdir "$work/project"
: >"$work/project/starstep-aarch64.sif"
export STARSTEP_SITE=$work/gh200.conf
submits "GH200, 2 nodes" 2node.sh --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72 --mem=440G \
    --account=mine --partition=accel --signal=B:USR1@300
check "no apptainer here: says that nothing was checked" grep -q 'not checked: apptainer .* does not run here' "$work/err"
submits "GH200, 1 GPU" 1gpu.sh --ntasks-per-node=1 --gpus-per-node=1 --cpus-per-task=72 --mem=110G
submits "GH200, CPUs" cpu.sh --ntasks-per-node=4 --cpus-per-task=72
check "CPUs: no GPU is asked for" eval "! grep -q -e --gpus '$work/args'"
sed "s,FILL_IN,mine,; s,^GPU_TYPE=,GPU_TYPE=a100,; s,^STARSTEP=,STARSTEP=$STARSTEP," "$slurm/sites/infiniband-a100-v100.conf" >"$work/ib.conf"
export STARSTEP_SITE=$work/ib.conf
submits "InfiniBand, 2 GPUs" 2gpu.sh --gpus-per-node=a100:2 --constraint=a100 --mem=128G --cpus-per-task=8

refuses "no such launcher" 'MPI is "pmi9"' 's/^MPI=auto/MPI=pmi9/'
refuses "no number" 'GPUS_PER_NODE is "four"' 's/^GPUS_PER_NODE=4/GPUS_PER_NODE=four/'
refuses "no fabric" 'FABRIC is "token-ring"' 's/^FABRIC=none/FABRIC=token-ring/'
refuses "no size" 'MEMORY_PER_TASK is "much"' 's/^MEMORY_PER_TASK=/MEMORY_PER_TASK=much/'
STARSTEP_SITE=$work/none.conf run bash "$work/slurm/4gpu.sh"
check "no file" grep -q "none.conf cannot be read" "$work/err"

# ---- what is known before ---------------------------------------------------------------------------------

cat >"$work/good.conf" <<END
GPUS_PER_NODE=2
STARSTEP=$STARSTEP
TRAIN=(--width 2,2,2,2 --per-rank-batch-size 8 --timeout 20)
GPU_TRAIN=(--device cpu)
RESULTS=$work/results
DATA_DIR=$work/data
SBATCH_EXTRA=(--comment=made-up)
END
export STARSTEP_SITE=$work/good.conf
# changed SED-SCRIPT: a copy of that
changed() {
    sed "$1" "$work/good.conf" >"$work/bad.conf"
    STARSTEP_SITE=$work/bad.conf
}
jobs='1gpu 2gpu 4gpu 8gpu 1node 2node 4node 8node cpu trace scaling'
for name in $jobs sweep; do
    what="$name --help"
    PATH=/usr/bin:/bin STARSTEP_SITE=/nowhere run bash "$work/slurm/$name.sh" --epochs 3 --help
    check "$what" test "$code$(grep -c "^usage: $work/slurm/$name.sh .*--dry-run" "$work/out")" = 01
    what="$name --dry-run"
    rm -f "$work/args"
    run bash "$work/slurm/$name.sh" --dry-run --epochs 3 --sbatch=--hold
    if [ $code != 0 ] || [ -s "$work/err" ] || [ -e "$work/args" ] || [ -e "$work/results" ]; then
        fail "$what: exit code $code, a warning, or something was done"
    elif grep -q "^sbatch: .*sbatch --parsable .*--comment=made-up .*--hold .*.sh .*--epochs 3 \$" "$work/out" &&
        grep -q "^program: *$STARSTEP .*--epochs 3 \$" "$work/out"; then
        ok "$what: $(grep -m 1 '^job:' "$work/out" | sed "s,$work/,,")"
    else
        fail "$what: not what sbatch and the ranks are given"
    fi
done
# only 1, 2, 4, 8 nodes of 2 GPUs; the same block, but for its own name
for name in $jobs; do
    sed -n '/^slurm_dir=/,$p' "$slurm/$name.sh" | sed "s,/$name,/NAME,"
done | sort | uniq -c | awk '$1 % 11 { print; bad = 1 } END { exit bad }' >"$work/out"
check "all job scripts find job.sh alike" test ! -s "$work/out"
for name in env job program rank submit; do
    run bash "$work/slurm/$name.sh" --help
    check "$name.sh is no job, and says so" test "$code$(grep -c '1gpu.sh --help' "$work/err")" = 21
done
run bash "$work/slurm/8node.sh" --dry-run --sbatch=--nodes=3
check "--sbatch=--nodes=3: 6 ranks are checked" grep -q '^check: .*batch size of 48, .* 6 ranks' "$work/out"

run bash "$work/slurm/sweep.sh" --dry-run --per-rank-batch-size 16
check "a sweep names the size that does not fit, and goes on" \
    test "$code$(grep -c '^8node: would not be submitted' "$work/err")$(grep -c '^== scaling' "$work/out")" = 011
stops "a misspelt option" 'train: unknown option --epoch; did you mean --epochs' 2gpu.sh --epoch 3
stops "a misspelt option of a sweep" 'unknown option --one-by-on' sweep.sh --one-by-on
stops "another model's checkpoint" 'no such folder' 1gpu.sh --resume "$work/nowhere"
changed 's,--per-rank-batch-size 8,,'
stops "a batch that does not divide" 'does not divide by 16 ranks' 8node.sh --batch-size 24
changed 's,^DATA_DIR=.*,DATA_DIR=,'
stops "no DATA_DIR" 'bad.conf: DATA_DIR is empty' 4gpu.sh
run bash "$work/slurm/4gpu.sh" --dry-run --data-dir "$work/data"
check "no DATA_DIR, but --data-dir" test $code = 0
changed 's,^DATA_DIR=.*,DATA_DIR=/nowhere/data,'
stops "DATA_DIR is not there" '/nowhere/data: No such file' 4gpu.sh
run bash "$work/slurm/4gpu.sh" --no-check
check "DATA_DIR is not there, --no-check: submitted" test "$code$(tail -n 1 "$work/args")" = "0$work/slurm/4gpu.sh"
changed 's,^STARSTEP=.*,STARSTEP=/nowhere/starstep,'
stops "no program" 'STARSTEP is "/nowhere/starstep", which is no program here' cpu.sh
changed 's,^STARSTEP=.*,STARSTEP=,'
PATH=$work/bin:/usr/bin:/bin stops "not built" 'no program starstep in build-cuda or build beside .*/slurm, nor in PATH' cpu.sh
changed 's,^SBATCH_EXTRA=.*,QOS=FILL_IN,'
stops "a field that is left" 'bad.conf: something is left to fill in: 7:QOS=FILL_IN' cpu.sh
changed "s,^RESULTS=.*,RESULTS=$work/args.not/../good.conf/x,"
stops "results cannot be written" 'good.conf' cpu.sh
# A module system that knows one module, in which the program is
cat >"$work/modules" <<END
module() {
    echo "module \$*"
    case "\$*" in
    purge) ;;
    'load starstep') PATH=${STARSTEP%/*}:\$PATH ;;
    *) return 1 ;;
    esac
}
END
changed "s,^STARSTEP=.*,STARSTEP=starstep MODULES=(starstep),; \$r $work/modules"
run bash "$work/slurm/2gpu.sh" --epochs 3
check "the program is in a module: submitted, without another word" test "$code$(wc -l <"$work/out")$(wc -c <"$work/err")" = 010
stops "the program in the module is asked" 'unknown option --epoch;' 2gpu.sh --epoch 3
changed "s,^STARSTEP=.*,STARSTEP=starstep MODULES=(starstop),; \$r $work/modules"
stops "no such module" 'module load starstop failed; see MODULES in' 2gpu.sh
changed "s,^STARSTEP=.*,STARSTEP=starstep MODULES=(starstep),"
run bash "$work/slurm/2gpu.sh" --epoch 3
check "no module system here: a warning, and submitted" test "$code$(grep -c 'not checked: there is no command "module" here' "$work/err")" = 01
mkdir -p "$work/config/starstep"
cp "$work/good.conf" "$work/config/starstep/site.conf"
unset STARSTEP_SITE
run bash "$work/slurm/cpu.sh" --dry-run
check "a site's file of one's own" grep -qx "site: *$work/config/starstep/site.conf" "$work/out"
mkdir "$work/spool"
cp "$work/slurm/1gpu.sh" "$work/spool/slurm_script"
printf '#!/bin/bash\necho "   Command=(null)"\n' >"$work/bin/scontrol"
chmod +x "$work/bin/scontrol"
SLURM_JOB_ID=7 run bash "$work/spool/slurm_script"
check "a job of nowhere says what to do" test "$code$(grep -c 'error: no job.sh beside .* set STARSTEP_SLURM' "$work/err")" = 11
check "nothing is left of checks" test ! -e "$work/results/.check"

finish
