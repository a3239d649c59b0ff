#!/usr/bin/env bash
# Shell completions cover all commands, options and their values.
# shellcheck disable=SC2154  # $top_srcdir: from make check
. "${srcdir:-.}/tests/common.sh"
[ -n "$PYTHON" ] || {
    echo "skipped: no python3, which starstep data convert needs"
    exit 77
}

"$top_srcdir/tools/completion/table" "$STARSTEP" >"$work/options"
check "options.tsv is up to date (\`make manual\`)" diff "$top_srcdir/tools/completion/options.tsv" "$work/options"

built=$(cd "${top_builddir:-.}" && pwd)/tools/completion
mkdir -p "$work/here/folder" && cd "$work/here" && touch model.json || exit 99
# shellcheck source=/dev/null
. "$built/bash/starstep"

# completes EXPECTED WORD...: check the completions of the last word
completes() {
    COMP_WORDS=(starstep "${@:2}") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _starstep
    check "bash: starstep ${*:2}: ${COMPREPLY[*]}" [ "${COMPREPLY[*]}" = "$1" ]
}
completes "trace train" tr
completes "--precision" train --preci
completes "fp32 bf16 fp16" train --precision ""
completes "bf16" train --epochs 3 --precision b
completes "bf16" train --precision = b
completes "constant cosine" train --schedule co
completes "resnext50 resnext50_32x4d" eval --model resnext
completes "model.json" train --model m
completes "folder" train --data-dir ""
completes "" train --epochs ""
completes "--no-augment --no-autotune" train --nesterov --no-au
completes "check convert fetch make pack" data ""
completes "cifar10 cifar100 tinyimagenet" data make ""
completes "--classes --out --seed --test --train" data make cifar10 --
completes "export report" trace ""
completes "doctor" help "do"
completes "cpu cuda" launch -n 2 train --device c
completes "cpu cuda" tune --minutes 3 -- --device c
completes "" unknown-command ""
cd - >/dev/null || exit 99

if command -v zsh >/dev/null; then
    check "the file for zsh is valid" zsh -n "$built/zsh/_starstep"
fi
finish
