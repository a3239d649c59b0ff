# User interface: installation, command line, standard input and output
TESTS += tests/cli/test_info.sh tests/cli/test_install.sh tests/cli/test_manual.sh tests/cli/test_completion.sh tests/cli/test_docs.sh tests/cli/test_site.sh
UNIT_TESTS += tests/cli/test_transcripts
tests_cli_test_transcripts_SOURCES = tests/cli/test_transcripts.c tests/cli/commands.h
tests_cli_test_transcripts_CPPFLAGS = $(TEST_CPPFLAGS)
tests_cli_test_transcripts_LDADD = $(TEST_LIBS)
TESTS += tests/cli/test_guides.sh tests/cli/test_quickstart.sh tests/cli/test_stdio.sh tests/cli/test_plan_lr.sh
