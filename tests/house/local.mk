# The house as a whole: what may know what
TESTS += tests/house/test_walls.sh
