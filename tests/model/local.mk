# Import of PyTorch models
TESTS += tests/model/test_from_pytorch.sh
TESTS += tests/model/test_new_model.sh
