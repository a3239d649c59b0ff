# Models from PyTorch
TESTS += tests/model/test_from_pytorch.sh
