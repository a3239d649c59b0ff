#!/usr/bin/env bash
# --model FILE.json: an exported built-in model gives the same plan and bit-identical weights; it can be evaluated and
# resumed. Incompatible options are refused, and so are different files on the ranks.
. "${srcdir:-.}/tests/common.sh"

make_data 80 24
file=$work/model.json
wide=(--model wideresnet --width 2,2,4,4)
starts "exported" "$STARSTEP" plan "${wide[@]}" --export --out "$file"
starts "plan" "$STARSTEP" plan "${wide[@]}"
mv "$work/out" "$work/built-in"
starts "plan of the file" "$STARSTEP" plan --model "$file"
check "the same plan" cmp "$work/built-in" "$work/out"
starts "exported again" "$STARSTEP" plan --model "$file" --export
check "the same file" cmp "$file" "$work/out"

# hash LOG: print the hash of the final weights
hash() { sed -n 's/.*"event":"end".*"weights_hash":"\([0-9a-f]*\)".*/\1/p' "$1"; }
train=("$STARSTEP" train --data-dir "$work/data" --batch-size 16 --seed 1 --epochs 1 --threads 1)
starts "built-in" "${train[@]}" "${wide[@]}" --log-json "$work/a"
starts "file" "${train[@]}" --model "$file" --log-json "$work/b"
check "the same weights" test "$(hash "$work/a")" = "$(hash "$work/b")"
starts "built-in, no dropout" "$STARSTEP" plan "${wide[@]}" --dropout 0
mv "$work/out" "$work/without"
starts "file, no dropout" "$STARSTEP" plan --model "$file" --dropout 0
check "the same plan without dropout" diff <(sed 1d "$work/without") <(sed 1d "$work/out")
check "which differs from the plan with dropout" eval '! cmp -s "$work/built-in" "$work/without"'

starts "half a run" "${train[@]}" --model "$file" --max-steps 2 --checkpoint-dir "$work/run"
starts "the other half" "${train[@]}" --model "$file" --resume "$work/run/latest" --log-json "$work/e"
check "the same weights after a resume" test "$(hash "$work/a")" = "$(hash "$work/e")"
sed 's/},$/},\n/' "$file" >"$work/moved.json"
check "a reformatted file" test "$(cmp -s "$file" "$work/moved.json"; echo $?)" -eq 1
starts "the other half, with the reformatted file" "${train[@]}" --model "$work/moved.json" --resume "$work/run/latest"
sed 's/"p":0.01/"p":0.02/' "$file" >"$work/changed.json"
check "a changed model" test "$(cmp -s "$file" "$work/changed.json"; echo $?)" -eq 1
refused "a changed model" '--model was a file with layers [0-9a-f]* and is now a file with layers' \
    "${train[@]}" --model "$work/changed.json" --resume "$work/run/latest"
starts "eval" "$STARSTEP" eval --model "$file" --data-dir "$work/data" --init "$work/run/latest/model.safetensors"

refused "--width" '--width is for built-in models' "${train[@]}" --model "$file" --width 2,2,2,2
refused "--dropout" "--dropout 0.3: the layers of $file define their own dropout" "${train[@]}" --model "$file" --dropout 0.3
sed 's/"height":32,"width":32/"height":64,"width":64/' "$file" >"$work/large.json"
refused "other images" 'its images are 64x64, the data.s 32x32; export it with --image-size 32' \
    "${train[@]}" --model "$work/large.json"
starts "10 classes" "$STARSTEP" plan "${wide[@]}" --classes 10 --export --out "$work/few.json"
refused "fewer classes" 'it has 10 classes, the data have 100' "${train[@]}" --model "$work/few.json"
refused "no file" "--model $work/none.json: cannot read" "${train[@]}" --model "$work/none.json"
refused "not a model" "$work/none.txt: line 1: not JSON" "${train[@]}" --model "$work/none.txt" < <(echo x >"$work/none.txt")

if have_ranks; then
    # Each rank in a separate folder
    cat >"$work/own" <<END
#!/bin/sh
cd "$work/\$OMPI_COMM_WORLD_RANK" && exec "\$@"
END
    chmod +x "$work/own"
    mkdir "$work/0" "$work/1"
    cp "$file" "$work/0/m.json"
    sed 's/"p":0.01/"p":0.02/' "$file" >"$work/1/m.json"
    run "$MPIEXEC" -n 2 "$work/own" "${train[@]}" --model ./m.json
    what="two files"
    check "$what: exit code $code" test $code -ne 0
    says 'model file'
    cp "$file" "$work/1/m.json"
    run "$MPIEXEC" -n 2 "$work/own" "${train[@]}" --model ./m.json --max-steps 2
    check "one file in two places: exit code $code" test $code -eq 0
fi
finish
