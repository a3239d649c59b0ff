#!/usr/bin/env bash
# The scripts of slurm/ without Slurm: shellcheck; the arguments of sbatch and srun at each site (tests/slurm/golden/,
# updated with SS_UPDATE_GOLDEN=1); errors for invalid site files, options and variables; data staged on one node.
# shellcheck disable=SC2154  # $top_srcdir, $STARSTEP: make check's
. "${srcdir:-.}/tests/common.sh"

unset STARPU_PERF_MODEL_DIR STARPU_DIR # set by tests and quickstart; scripts pass StarPU's variables on
slurm=$top_srcdir/slurm
cp -R "$slurm" "$work/slurm" || exit 99
chmod -R u+w "$work/slurm"

if command -v shellcheck >/dev/null; then
    cd "$slurm" || exit 99
    # The job scripts have the same ending (checked below), so the files that they source are checked once.
    run shellcheck -x -P .. -- 1gpu.sh sweep.sh rank.sh stage.sh *.conf sites/*.conf ../tests/slurm/test_slurm*.sh ../tests/slurm/slurm_cluster.sh
    check "shellcheck" [ $code = 0 ] || cat "$work/out"
    run shellcheck -e SC1091,SC2034 -- [1-9]*.sh cpu.sh scaling.sh trace.sh container/build.sh
    check "shellcheck of the job scripts" [ $code = 0 ] || cat "$work/out"
else
    echo "note: no shellcheck"
fi

# Scripts must not contain home folders or fixed ports.
what="no home paths, no fixed port"
# shellcheck disable=SC2016  # as written
if grep -nE '/home/|~/|\$HOME/|MASTER_PORT=|--port' -r "$slurm" --include='*.sh' --include='*.conf'; then
    fail "$what"
else
    ok "$what"
fi

# The path of the image's program is that of the example site, and the scripts of its build steps exist.
while read -r word; do
    case $word in
    */src/*) check "the image's $word" test -x "$top_srcdir/${word#/opt/starstep/src/}" ;;
    */bin/*) check "the image's $word" grep -q "^STARSTEP=$word " "$slurm/sites/gh200-slingshot.conf" ;;
    esac
done < <(grep -oE '/opt/starstep/[a-z/]+[a-z.]+' "$slurm/container/starstep.def" | sort -u)

# A replacement for sbatch that writes its arguments to a file, one per line
mkdir "$work/bin"
cat >"$work/bin/sbatch" <<END
#!/bin/bash
printf '%s\n' "\$@" >"$work/args"
echo 17
END
printf '#!/bin/bash\necho a-name\n' >"$work/bin/squeue"
printf '#!/bin/bash\necho "MPI plugin types are... none pmix"\n' >"$work/bin/srun"
chmod +x "$work/bin"/*
PATH=$work/bin:$PATH
cd "$work" || exit 99
make_data 128 16
export XDG_CONFIG_HOME=$work/config

# golden SITE: compares each script's arguments for Slurm with the golden file of the site
golden() {
    local name file=$top_srcdir/tests/slurm/golden/$1.txt
    for name in 1gpu 2gpu 4gpu 8gpu 1node 2node 4node 8node cpu trace scaling; do
        echo "== $name"
        env -u TMPDIR -u SLURM_TMPDIR CHECK=1 bash "$work/slurm/$name.sh" --dry-run --no-check --epochs 3 2>&1
    done | grep -E '^(==|sbatch:|launch:|network:|program:)' | sed "s,$STARSTEP,STARSTEP,g; s,$(realpath "$work"),WORK,g; s,$work,WORK,g; s, *\$,," >"$work/golden"
    if [ "${SS_UPDATE_GOLDEN:-0}" = 1 ]; then cp "$work/golden" "$file" || exit 99; fi
    run diff "$file" "$work/golden"
    check "$1: arguments of sbatch and srun match tests/slurm/golden" [ $code = 0 ] || cat "$work/out"
}

# submits WHAT SCRIPT OPTION...: checks that sbatch receives these options
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

# refuses WHAT PATTERN SED-SCRIPT: checks that a site file with this change is refused with a one-line error
refuses() {
    what=$1
    sed "$3" "$slurm/site.conf" >"$work/bad.conf"
    STARSTEP_SITE=$work/bad.conf stops "$what" "$2" 4gpu.sh
}

# stops WHAT PATTERN SCRIPT OPTION...: checks that nothing is submitted and one line gives the reason
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
    check "$site unchanged: lists the fields to fill in" grep -q 'left to fill in: [0-9]*:' "$work/err"
done
sed "s,FILL_IN,mine,; s,^PROJECT=.*,PROJECT=$work/project," "$slurm/sites/gh200-slingshot.conf" >"$work/gh200.conf"
STARSTEP_SITE=$work/gh200.conf stops "GH200, no image" 'CONTAINER names .*aarch64.sif, which does not exist' 4gpu.sh
mkdir "$work/project"
: >"$work/project/starstep-aarch64.sif"
export STARSTEP_SITE=$work/gh200.conf
golden gh200-slingshot
submits "GH200, 2 nodes" 2node.sh --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72 --mem=440G \
    --account=mine --partition=accel --signal=B:USR1@300
check "no apptainer: reports that nothing was checked" grep -q 'not checked: apptainer .* does not run here' "$work/err"
submits "GH200, 1 GPU" 1gpu.sh --ntasks-per-node=1 --gpus-per-node=1 --cpus-per-task=72 --mem=110G
submits "GH200, CPUs" cpu.sh --ntasks-per-node=4 --cpus-per-task=72
check "CPUs: no GPU is requested" eval "! grep -q -e --gpus '$work/args'"
sed "s,FILL_IN,mine,g; s,^GPU_TYPE=,GPU_TYPE=a100,; s,^STARSTEP=,STARSTEP=$STARSTEP," "$slurm/sites/infiniband-a100-v100.conf" >"$work/ib.conf"
export STARSTEP_SITE=$work/ib.conf
golden infiniband-a100-v100
submits "InfiniBand, 2 GPUs" 2gpu.sh --gpus-per-node=a100:2 --constraint=a100 --mem=128G --cpus-per-task=8

refuses "invalid LINK_GBIT" 'LINK_GBIT is "fast"' 's/^LINK_GBIT=/LINK_GBIT=fast/'
refuses "invalid CHECK" 'CHECK is "yes", not 0 or 1' 's/^CHECK=0/CHECK=yes/'
refuses "staging without LOCAL_DIR" 'STAGE=1, but LOCAL_DIR is empty' 's/^STAGE=0/STAGE=1/'
refuses "GPUs hidden by the site" 'NVLink is lost' 's/^SRUN_EXTRA=()/SRUN_EXTRA=(--gpus-per-task=1)/'
CHECK=maybe refuses "invalid CHECK in the environment" 'CHECK is "maybe"' ''
refuses "invalid MPI" 'MPI is "pmi9"' 's/^MPI=auto/MPI=pmi9/'
refuses "invalid GPUS_PER_NODE" 'GPUS_PER_NODE is "four"' 's/^GPUS_PER_NODE=4/GPUS_PER_NODE=four/'
refuses "invalid FABRIC" 'FABRIC is "token-ring"' 's/^FABRIC=none/FABRIC=token-ring/'
refuses "invalid MEMORY_PER_TASK" 'MEMORY_PER_TASK is "much"' 's/^MEMORY_PER_TASK=/MEMORY_PER_TASK=much/'
STARSTEP_SITE=$work/none.conf run bash "$work/slurm/4gpu.sh"
check "missing site file" grep -q "none.conf cannot be read" "$work/err"

# ---- checks before submission -----------------------------------------------------------------------------

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
# changed SED-SCRIPT: uses a changed copy of good.conf as the site file
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
        fail "$what: exit code $code, a warning, or files were written"
    elif grep -q "^sbatch: .*sbatch --parsable .*--comment=made-up .*--hold .*.sh .*--epochs 3 \$" "$work/out" &&
        grep -q "^program: *$STARSTEP .*--epochs 3 \$" "$work/out"; then
        ok "$what: $(grep -m 1 '^job:' "$work/out" | sed "s,$work/,,")"
    else
        fail "$what: wrong arguments of sbatch or the ranks"
    fi
done
# The last block of all job scripts must be the same except for the name of the script.
for name in $jobs; do
    sed -n '/^slurm_dir=/,$p' "$slurm/$name.sh" | sed "s,/$name,/NAME,"
done | sort | uniq -c | awk '$1 % 11 { print; bad = 1 } END { exit bad }' >"$work/out"
check "all job scripts find job.sh in the same way" test ! -s "$work/out"
for name in env fabric job launch program rank stage submit; do
    run bash "$work/slurm/$name.sh" --help
    check "$name.sh reports that it is not a job script" test "$code$(grep -c '1gpu.sh --help' "$work/err")" = 21
done
run bash "$work/slurm/8node.sh" --dry-run --sbatch=--nodes=3
check "--sbatch=--nodes=3: 6 ranks are checked" grep -q '^check: .*batch size of 48, .* 6 ranks' "$work/out"

run bash "$work/slurm/sweep.sh" --dry-run --per-rank-batch-size 16
check "a sweep reports a size that is not valid, and continues" \
    test "$code$(grep -c '^8node: would not be submitted' "$work/err")$(grep -c '^== scaling' "$work/out")" = 011
stops "a misspelled option" 'train: unknown option --epoch; did you mean --epochs' 2gpu.sh --epoch 3
stops "GPUs hidden" 'gpus-per-task=1: it hides .* NVLink is lost' 2gpu.sh --sbatch=--gpus-per-task=1
stops "a misspelled option of a sweep" 'unknown option --one-by-on' sweep.sh --one-by-on
STARPU_NCPU=8 stops "an unsupported StarPU variable" 'STARPU_NCPU=8: --threads and --workers' cpu.sh
run env STARPU_SCHED=dmda bash "$work/slurm/cpu.sh" --dry-run
check "a supported StarPU variable is passed to the job" grep -q '^sbatch: .* STARPU_SCHED=dmda sbatch .*STAGE.,STARPU_SCHED ' "$work/out"
stops "another model's checkpoint" 'no such folder' 1gpu.sh --resume "$work/nowhere"
changed 's,--per-rank-batch-size 8,,'
stops "a batch size that is not divisible" 'is not divisible by 16 ranks' 8node.sh --batch-size 24
changed 's,^DATA_DIR=.*,DATA_DIR=,'
stops "no DATA_DIR" 'bad.conf: DATA_DIR is empty' 4gpu.sh
run bash "$work/slurm/4gpu.sh" --dry-run --data-dir "$work/data"
check "no DATA_DIR, but --data-dir" test $code = 0
changed 's,^DATA_DIR=.*,DATA_DIR=/nowhere/data,'
stops "DATA_DIR does not exist" '/nowhere/data: No such file' 4gpu.sh
run bash "$work/slurm/4gpu.sh" --no-check
check "DATA_DIR does not exist, --no-check: submitted" test "$code$(tail -n 1 "$work/args")" = "0$work/slurm/4gpu.sh"
changed 's,^STARSTEP=.*,STARSTEP=/nowhere/starstep,'
stops "no program" 'STARSTEP is "/nowhere/starstep", which is not a program here' cpu.sh
changed 's,^STARSTEP=.*,STARSTEP=,'
PATH=$work/bin:/usr/bin:/bin stops "not built" 'no program starstep in build-cuda or build next to .*/slurm, nor in PATH' cpu.sh
changed 's,^SBATCH_EXTRA=.*,QOS=FILL_IN,'
stops "a field left to fill in" 'bad.conf: something is left to fill in: 7:QOS=FILL_IN' cpu.sh
changed "s,^RESULTS=.*,RESULTS=$work/args.not/../good.conf/x,"
stops "results cannot be written" 'good.conf' cpu.sh
# A module system with one module, which provides the program
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
check "the program is in a module: submitted without a warning" test "$code$(wc -l <"$work/out")$(wc -c <"$work/err")" = 010
stops "options are checked with the program in the module" 'unknown option --epoch;' 2gpu.sh --epoch 3
changed "s,^STARSTEP=.*,STARSTEP=starstep MODULES=(starstop),; \$r $work/modules"
stops "no such module" 'module load starstop failed; see MODULES in' 2gpu.sh
changed "s,^STARSTEP=.*,STARSTEP=starstep MODULES=(starstep),"
run bash "$work/slurm/2gpu.sh" --epoch 3
check "no module system: a warning, and submitted" test "$code$(grep -c 'not checked: there is no command "module" here' "$work/err")" = 01
mkdir -p "$work/config/starstep"
cp "$work/good.conf" "$work/config/starstep/site.conf"
unset STARSTEP_SITE
run bash "$work/slurm/cpu.sh" --dry-run
check "a site file in the configuration folder" grep -qx "site: *$work/config/starstep/site.conf" "$work/out"
mkdir "$work/spool"
cp "$work/slurm/1gpu.sh" "$work/spool/slurm_script"
printf '#!/bin/bash\necho "   Command=(null)"\n' >"$work/bin/scontrol"
chmod +x "$work/bin/scontrol"
SLURM_JOB_ID=7 run bash "$work/spool/slurm_script"
check "a job that cannot find slurm/ suggests STARSTEP_SLURM" test "$code$(grep -c 'error: no job.sh in the folder of .* set STARSTEP_SLURM' "$work/err")" = 11
cp "$work/slurm/1gpu.sh" "$work/slurm/slurm_script"
STARSTEP_SLURM=$work/slurm SLURM_JOB_ID=7 SLURM_JOB_NAME=1gpu SLURM_JOB_NUM_NODES=1 SLURM_SUBMIT_DIR=$work \
    SLURM_JOB_NODELIST=none run bash "$work/slurm/slurm_script"
check "a bare sbatch without the number of cores suggests the command" test \
    "$code$(grep -c "error: .* how many cores .* run $work/slurm/1gpu.sh without sbatch" "$work/err")" = 11
check "files of checks are removed" test -d "$work/results" -a ! -e "$work/results/.check"
rm -rf "$work/results"

# ---- data that is staged on a node ------------------------------------------------------------------------

mkdir "$work/local"
export SLURMD_NODENAME=here
# stage TASK OPTION...: runs stage.sh for job 7
stage() {
    run bash "$work/slurm/stage.sh" "$1" "$work/local/starstep-%n" 7 "${@:2}"
}
staged=$work/local/starstep-here
stage fill "$work/data" "$work/data.packs" false
check "staged: $(cut -d ' ' -f 3- "$work/out")" test "$code" = 0 -a -s "$staged/data/train.bin"
check "staged: the same files" diff -r "$work/data" "$staged/data"
stage fill "$work/data" "$work/data.packs" false
check "staged again: the data is reused" grep -q 'are here already' "$work/out"
truncate -s -1 "$staged/data/train.bin"
stage fill "$work/data" "$work/data.packs" false
check "staged data was truncated: copied again" diff -r "$work/data" "$staged/data"
touch "$work/data/test.bin"
stage fill "$work/data" "$work/data.packs" false
check "the data has changed: copied again" grep -q ' MB/s' "$work/out"
: >"$work/flag.keep"
stage hold "$work/flag"
check "retained for the next start" test -s "$staged/data/train.bin"
rm "$work/flag.keep"
: >"$staged/mine"
: >"$work/flag.end"
stage hold "$work/flag"
check "other files in the folder are not removed" test -e "$staged/mine" -a ! -e "$staged/data"
rm -r "$staged"
mkdir "$staged" "$staged/data"
stage fill "$work/data" "$work/data.packs" false
check "a folder of another owner: $(cut -d : -f 2- "$work/err")" grep -q 'stage: here: .*/starstep-here: exists, but was not created by this job' "$work/err"
stage hold "$work/flag"
check "a folder of another owner is not removed" test -d "$staged/data"
rm -r "$staged"

mkdir "$work/local/elsewhere"
ln -s elsewhere "$staged"
stage fill "$work/data" "$work/data.packs" false
check "a link to another folder: $(cut -d : -f 2- "$work/err")" test "$code" = 1 -a -z "$(ls -A "$work/local/elsewhere")"
echo 7 >"$work/local/elsewhere/job"
stage hold "$work/flag"
check "the target of a link is not removed" test -e "$work/local/elsewhere/job"
rm -r "$staged" "$work/local/elsewhere"

# A signal arrives during the creation of the folder, before the file with its owner is written.
cat >"$work/bin/mkdir" <<'END'
#!/bin/bash
/bin/mkdir "$@"
kill -TERM $PPID
END
chmod +x "$work/bin/mkdir"
stage fill "$work/data" "$work/data.packs" false
rm "$work/bin/mkdir"
check "SIGTERM during mkdir: the folder exists" test "$code" = 1 -a -d "$staged" -a ! -e "$staged/job"
stage hold "$work/flag"
check "SIGTERM during mkdir: the folder is removed" test ! -e "$staged"

# A slow copy is interrupted by SIGTERM and by SIGKILL.
printf '#!/bin/bash\n/bin/cp "$@"\nsleep 15\n' >"$work/bin/cp"
chmod +x "$work/bin/cp"
for signal in TERM KILL; do
    bash "$work/slurm/stage.sh" fill "$work/local/starstep-%n" 7 "$work/data" "$work/data.packs" false >"$work/out" 2>"$work/err" &
    wait_until 10 test -s "$staged/part/train.bin"
    if [ $signal = KILL ]; then
        check "progress is printed every 10 s" \
            wait_until 15 grep -qE '/data: ([0-9.]+) of \1 MB, 0\.[0-9] MB/s' "$work/out"
    fi
    kill -$signal $!
    wait $! 2>/dev/null
    check "SIG$signal during the copy: no data that seems complete" test ! -e "$staged/data" -a ! -e "$staged/content"
    if [ $signal = TERM ]; then check "SIG$signal: the partial copy is removed" test ! -e "$staged/part"; fi
done
rm "$work/bin/cp"
stage fill "$work/data" "$work/data.packs" false
check "a previous partial copy is not used" diff -r "$work/data" "$staged/data"
stage hold "$work/flag"
check "removed" test ! -e "$staged"
sleep 60 &
sleeper=$!
bash "$work/slurm/stage.sh" hold "$work/local/starstep-%n" 7 "$work/no-flag" >/dev/null &
holder=$!
stage fill "$work/data" "$work/data.packs" false
kill -USR1 $holder
kill -TERM $holder
: >"$work/no-flag.end"
wait $holder
kill $sleeper
check "SIGTERM, and the end of the ranks: removed" test ! -e "$staged"

if [ "$(id -u)" = 0 ] && mkdir "$work/small" && mount -t tmpfs -o size=64k none "$work/small" 2>/dev/null; then
    run bash "$work/slurm/stage.sh" fill "$work/small/s" 7 "$work/data" "$work/data.packs" false
    check "disk full: $(cut -d : -f 2- "$work/err")" grep -q 'only [0-9.]* MB of free space, but .*data has' "$work/err"
    check "disk full: one line" test "$code$(wc -l <"$work/err")" = 11
fi

# Images: packed on the node, or existing packs are copied
timeout 60 "$STARSTEP" data make tinyimagenet --out "$work/tiny" --train 40 --val 8 >/dev/null || exit 99
stage fill "$work/tiny" "$work/tiny.packs" "$STARSTEP"
check "images are packed" test "$code" = 0 -a -s "$staged/packs/train.pack" -a ! -e "$staged/data"
stage fill "$work/tiny" "$work/tiny.packs" "$STARSTEP"
check "existing packs are reused" grep -q 'train.pack fits' "$work/out"
mv "$staged/packs" "$work/tiny.packs"
stage fill "$work/tiny" "$work/tiny.packs" false
check "packs are copied" cmp "$staged/packs/train.pack" "$work/tiny.packs/train.pack"
check "copied packs are valid" eval \
    "'$STARSTEP' data pack tinyimagenet --data-dir '$work/tiny' --cache '$staged/packs' | grep -c 'fits:' | grep -qx 2"
stage hold "$work/flag"
check "packs are removed" test ! -e "$staged"

finish
