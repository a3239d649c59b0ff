#!/usr/bin/env bash
# Runs tests/train/test_frozen.sh (frozen weights) on a GPU in fp16. Exit code 77: no GPU.
uses_gpu=1 options=(--precision fp16)
# shellcheck source=tests/train/test_frozen.sh
. "${srcdir:-.}/tests/train/test_frozen.sh"
