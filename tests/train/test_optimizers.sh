#!/usr/bin/env bash
# All optimizers, with parameter groups, gradient clipping and EMA: a resumed run has the weights of an uninterrupted
# one, on 1 and 2 ranks, with 1 and 4 load workers; the optimizer states in a checkpoint have the names of PyTorch;
# incompatible options are refused.
. "${srcdir:-.}/tests/common.sh"

make_data 96 16
counts=1
have_ranks && counts="1 2"

# on RANKS ARGUMENT...: set $command
on() {
    local ranks=$1
    shift
    command=("$STARSTEP" train --data-dir "$work/data" --model resnet50 --width 8,8,8,8 --batch-size 16 --seed 1
        --workers 1 --epochs 2 --max-steps 9 "$@")
    [ "$ranks" -eq 1 ] || command=("$MPIEXEC" -n "$ranks" "${command[@]}")
}

hash_of() {
    sed -n 's/.*"event":"end".*"weights_hash":"\([0-9a-f]*\)".*/\1/p' "$1"
}

# states FILE: print the names of the optimizer states, each once
states() {
    tr ',{' '\n\n' <"$1" | sed -n 's/^"\([a-z_]*\)\.fc\.bias":$/\1/p' | sort | paste -sd ' '
}

# whole NAME STATES ARGUMENT...: compare an uninterrupted run to one resumed with another number of load workers
whole() {
    local name=$1 names=$2 ranks
    shift 2
    for ranks in $ranks_of; do
        what="$name, $ranks rank(s)"
        rm -rf "$work/whole" "$work/part" "$work/log"*
        on "$ranks" "$@" --checkpoint-dir "$work/whole" --log-json "$work/log.whole"
        starts "$what" "${command[@]}" || continue
        check "$what: states $names" test "$(states "$work/whole/latest/training.safetensors")" = "$names"
        on "$ranks" "$@" --checkpoint-dir "$work/part" --max-steps 4
        starts "$what, 4 steps" "${command[@]}" || continue
        on "$ranks" "$@" --checkpoint-dir "$work/part" --resume auto --workers 4 --log-json "$work/log.part"
        starts "$what, resumed" "${command[@]}" || continue
        check "$what: from step 4 on" test "$(grep -c '"event":"step"' "$work/log.part")" -eq 5
        check "$what: the same weights" test -n "$(hash_of "$work/log.whole")" -a \
            "$(hash_of "$work/log.whole")" = "$(hash_of "$work/log.part")"
        check "$what: the same checkpoint" cmp "$work/whole/latest/model.safetensors" "$work/part/latest/model.safetensors"
    done
    seen="${seen:-} $(hash_of "$work/log.whole")"
}

ranks_of=1
whole sgd momentum_buffer
whole nesterov momentum_buffer --nesterov
whole dampening momentum_buffer --dampening 0.3
whole adam "exp_avg exp_avg_sq" --optimizer adam --base-lr 0.001 --weight-decay 0.01 --no-decay bn
ranks_of=$counts
whole lars momentum_buffer --optimizer lars --base-lr 0.5
whole lamb "ema exp_avg exp_avg_sq" --optimizer lamb --base-lr 0.01 --ema-decay 0.9 --clip-norm 0.5 \
    --no-decay bias --lr-factor 'fc.*=2,conv1.*=0.5'
# shellcheck disable=SC2086
check "all results differ" test "$(printf '%s\n' $seen | sort -u | wc -l)" -eq "$(printf '%s\n' $seen | wc -l)"

# The EMA weights are evaluated with the running statistics of the model, and saved as a model.
what="--ema-decay"
on 1 --ema-decay 0.8 --checkpoint-dir "$work/ema" --log-json "$work/log.ema"
starts "$what" "${command[@]}" && says '^Epoch 2/2: .*Waited for input=[0-9.]*s, EMA validation loss=[0-9.]*, EMA accuracy=[0-9.]*$'
value() { sed -n "s/.*\"event\":\"$2\".*\"$3\":\([0-9.e-]*\).*/\1/p" "$1" | tail -n 1; }
for file in model model_ema; do
    key=val_loss
    [ $file = model ] || key=val_ema_loss
    starts "eval of $file" "$STARSTEP" eval --data-dir "$work/data" --model resnet50 --width 8,8,8,8 --batch-size 16 \
        --init "$work/ema/latest/$file.safetensors" --log-json "$work/log.$file"
    check "$what: $key matches $file.safetensors" test -n "$(value "$work/log.ema" epoch $key)" -a \
        "$(value "$work/log.ema" epoch $key)" = "$(value "$work/log.$file" eval val_loss)"
done
check "$what: two different models" eval '! cmp -s "$work/ema/latest/model.safetensors" "$work/ema/latest/model_ema.safetensors"'
on 1 --checkpoint-dir "$work/plain"
starts "without it" "${command[@]}"
check "$what: the model is unaffected" cmp "$work/plain/latest/model.safetensors" "$work/ema/latest/model.safetensors"
what="--clip-norm above all gradient norms"
on 1 --clip-norm 1e20 --checkpoint-dir "$work/clip"
starts "$what" "${command[@]}"
check "$what: the model is unaffected" cmp "$work/plain/latest/model.safetensors" "$work/clip/latest/model.safetensors"

# no WHAT PATTERN ARGUMENT...: the run must be refused
no() {
    local what=$1 pattern=$2
    shift 2
    on 1 "$@"
    refused "$what" "$pattern" "${command[@]}"
}
no "nesterov without momentum" '--nesterov needs a --momentum above 0' --nesterov --momentum 0
no "nesterov with dampening" '--nesterov and --dampening 0.1 do not go together' --nesterov --dampening 0.1
no "dampening without momentum" '--dampening 0.1 needs a --momentum above 0' --dampening 0.1 --momentum 0
no "adam with nesterov" '--optimizer adam has no --nesterov; leave it out' --optimizer adam --nesterov
no "adamw with dampening" '--optimizer adamw has no --dampening; leave it out' --optimizer adamw --dampening 0.1
no "invalid --no-decay" '--no-decay: "fc" is not bn or bias' --no-decay bn,fc
no "a pattern without matches" '--lr-factor: gn\..* fits no parameter of resnet50' --lr-factor 'gn.*=2'
no "no factor" '--lr-factor: "fc.\*" is not PATTERN=F' --lr-factor 'fc.*'
no "sgd with trust" '--optimizer sgd has no --trust' --trust 0.1
no "another optimizer" '--optimizer: "sdg" is not sgd, adam, adamw, lamb or lars' --optimizer sdg
if [ "$counts" != 1 ]; then
    for with in "--optimizer lars" "--optimizer lamb"; do
        # shellcheck disable=SC2086
        on 2 --shard-optimizer $with
        run "${command[@]}"
        check "--shard-optimizer $with: exit code $code" test "$code" -eq 1
        check "--shard-optimizer $with is refused" grep -q -e "--shard-optimizer and $with do not go together" "$work/err"
    done
fi

finish
