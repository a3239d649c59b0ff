# Mutation testing, run by hand only
TESTS += tests/meta/mutate/test_sites.py

# MUTATE: options of mutate.py. Takes hours.
check-mutants: all
	$(PYTHON) -B $(srcdir)/tests/meta/mutate/mutate.py --build . $(MUTATE)
