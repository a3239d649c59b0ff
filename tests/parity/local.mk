# Comparison with results of PyTorch (tests/reference)
check_PROGRAMS += tests/parity/parity_compare tests/parity/recipe_compare tests/parity/init_moments \
	tests/parity/formula_weights
run_log = tests/parity/run_log.c tests/parity/run_log.h
tests_parity_parity_compare_SOURCES = tests/parity/parity_compare.c $(run_log)
tests_parity_parity_compare_LDADD = libinside.la $(JANSSON_LIBS) -lm
tests_parity_recipe_compare_SOURCES = tests/parity/recipe_compare.c $(run_log)
tests_parity_recipe_compare_LDADD = libinside.la $(JANSSON_LIBS) -lm
tests_parity_init_moments_SOURCES = tests/parity/init_moments.c
tests_parity_init_moments_LDADD = libinside.la -lm
tests_parity_formula_weights_SOURCES = tests/parity/formula_weights.c
tests_parity_formula_weights_LDADD = libinside.la -lm

TESTS += tests/parity/test_parity.sh tests/parity/test_parity_torchvision.sh tests/parity/test_parity_images.sh \
	tests/parity/test_init.sh tests/parity/test_parity_recipes.sh tests/parity/test_parity_models.sh tests/parity/test_optimizer_state.sh
