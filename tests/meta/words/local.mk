# The words of the project's text
TESTS += tests/meta/words/test_words.sh
