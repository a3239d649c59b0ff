#!/usr/bin/env bash
# The commands of docs/from-pytorch.md that replace those of five guides: guides.py compares them with the guides, and
# each block is run unchanged with small data. A wrapper of starstep uses narrow models and short runs, and without a
# GPU (a real or emulated one) it runs on CPUs, with ranks started by mpiexec.
# shellcheck disable=SC2154  # $top_srcdir, $STARSTEP: from make check
# shellcheck disable=SC2034  # for common.sh
uses_gpu=1
. "${srcdir:-.}/tests/common.sh"

gpu=no
gpus=$("$STARSTEP" info 2>/dev/null | sed -n 's/.*GPUs seen: \([0-9]*\).*/\1/p')
if [ "${gpus:-0}" -ge 4 ]; then gpu=yes; fi
if [ $gpu = no ] && ! have_ranks; then
    echo "skipped: neither GPUs nor MPI"
    exit 77
fi

mkdir "$work/bin" "$work/here"
cat >"$work/bin/starstep" <<END
#!/bin/bash
start=("$STARSTEP")
if [ "\$1" = launch ] && [ $gpu = no ]; then
    start=($MPIEXEC -n "\$3" "$STARSTEP")
    shift 3
fi
case " \$* " in
*" --model resnet50 "*)
    small=(--width 2,2,4,4 --image-size 32)
    if [[ " \$* " = *" --check "* ]]; then small+=(--per-rank-batch-size 16); fi
    ;;
*" train "*) small=(--width 2,2,4,4) ;;
*) exec "\${start[@]}" "\$@" ;;
esac
small+=(--epochs 1 --threads 1 --workers 1)
[ $gpu = yes ] || small+=(--device cpu --precision fp32)
exec "\${start[@]}" "\$@" "\${small[@]}"
END
cat >"$work/bin/sbatch" <<END
#!/bin/bash
printf '%s ' "\$@" >>"$work/jobs"
echo >>"$work/jobs"
wc -l <"$work/jobs"
END
printf '#!/bin/bash\necho a-name\n' >"$work/bin/squeue"
printf '#!/bin/bash\necho "MPI plugin types are... none pmix"\n' >"$work/bin/srun"
chmod +x "$work/bin"/*
cat >"$work/site.conf" <<END
. "$top_srcdir/slurm/site.conf"
STARSTEP=$work/bin/starstep
DATA_DIR=$work/here/data
RESULTS=$work/here/results
END
export STARSTEP_SITE=$work/site.conf PATH=$work/bin:$PATH

cd "$work/here" || exit 99
ln -s "$top_srcdir/slurm" slurm
starts "small data" "$STARSTEP" data make cifar100 --out data --train 2048 --test 64
starts "small images" "$STARSTEP" data make tinyimagenet --out tiny-imagenet-200 --classes 4 --train 1024 --val 16

# Write the blocks of the section to files
awk '/^## /{on = $0 == "## Whole runs, side by side"}
     on && /^```sh$/{file = "../block-" ++n; next}
     /^```/{file = ""} file{print > file}' "$top_srcdir/docs/from-pytorch.md"
count=0
for block in ../block-*; do
    count=$((count + 1))
    run bash -e "$block"
    check "$(grep -oE '^(starstep|slurm/)[^\\]*' "$block" | tr -s ' \n' ' ' | cut -c 1-130): exit code $code" [ $code -eq 0 ]
    if grep -q ' train ' "$block"; then
        check "it trains" grep -q '^Total training time' "$work/out"
    fi
done
check "six runs" [ $count -eq 6 ]
check "curves of the monitor" [ -s run/use.svg ]
check "$(wc -l <"$work/jobs") jobs for sbatch" [ "$(grep -c -E 'slurm/([1248](gpu|node)|scaling)\.sh ' "$work/jobs")" -eq 9 ]
site=$(. "$top_srcdir/slurm/site.conf" && printf '%s\n' "${TRAIN[@]}" "${GPU_TRAIN[@]}")
if [ -n "$PYTHON" ]; then
    check "the commands and the recipes match the guides" eval \
        '"$STARSTEP" train --help table | "$PYTHON" "$top_srcdir/tests/cli/guides.py" "$top_srcdir/docs/from-pytorch.md" "$site" "$top_srcdir/graphs/recipes"'
fi
finish
