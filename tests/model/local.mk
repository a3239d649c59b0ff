# Models from PyTorch
TESTS += tests/model/test_from_pytorch.sh
TESTS += tests/model/test_new_model.sh
