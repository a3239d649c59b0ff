# What a user meets: the installation, the first command, standard input and output
TESTS += tests/cli/test_info.sh tests/cli/test_install.sh tests/cli/test_manual.sh tests/cli/test_docs.sh
if HAVE_DNNL
TESTS += tests/cli/test_quickstart.sh tests/cli/test_standard_files.sh tests/cli/test_plan_lr.sh
endif
