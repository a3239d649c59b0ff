#!/usr/bin/env bash
# Frozen weights on a GPU, in fp16, as test_frozen.sh has them on CPUs. Exit code 77: there is no GPU.
uses_gpu=1 options=(--precision fp16)
# shellcheck source=tests/train/test_frozen.sh
. "${srcdir:-.}/tests/train/test_frozen.sh"
