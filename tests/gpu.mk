# Tests that need a GPU; they skip where there is none.
TESTS += tests/test_gpu_train.sh
EXTRA_DIST += tests/test_gpu_train.sh
