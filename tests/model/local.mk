# Models from PyTorch
TESTS += tests/model/test_from_pytorch.sh
if HAVE_DNNL
TESTS += tests/model/test_new_model.sh
endif
