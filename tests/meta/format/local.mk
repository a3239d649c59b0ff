# The format of C files
TESTS += tests/meta/format/test_format.sh
