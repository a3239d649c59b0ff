check_PROGRAMS += tests/test_safetensors tests/fuzz_safetensors
tests_test_safetensors_SOURCES = tests/test_safetensors.c
tests_test_safetensors_LDADD = $(TEST_LIBS)
tests_fuzz_safetensors_SOURCES = tests/fuzz_safetensors.c tests/fuzz_bytes.h
tests_fuzz_safetensors_LDADD = $(TEST_LIBS)
TESTS += tests/test_safetensors tests/fuzz_safetensors
