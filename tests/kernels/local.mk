# 2-byte number formats for communication
UNIT_TESTS += tests/kernels/test_wire
tests_kernels_test_wire_SOURCES = tests/kernels/test_wire.c
tests_kernels_test_wire_LDADD = $(TEST_LIBS) -lm

# CPU kernels
KERNEL_CHECKS = tests/kernels/kernel_checks.c tests/kernels/test_kernels.h \
	tests/kernels/groupnorm_reference.h tests/kernels/activation_reference.h tests/kernels/conv_reference.h \
	tests/kernels/join_reference.h tests/kernels/transformer_reference.h tests/kernels/rule_reference.h \
	tests/kernels/norm_halves.h tests/kernels/norm_parts.h tests/kernels/loss_reference.h tests/reference/loss.h
UNIT_TESTS += tests/kernels/test_kernels tests/kernels/test_bf16_kernels
tests_kernels_test_kernels_SOURCES = tests/kernels/test_kernels.c $(KERNEL_CHECKS) \
	tests/kernels/test_kernels_conv.c tests/kernels/test_kernels_winograd.c \
	tests/kernels/test_kernels_norm_act.c tests/kernels/test_kernels_norm_bits.c \
	tests/kernels/test_kernels_join.c tests/kernels/test_kernels_pool.c tests/kernels/test_kernels_linear.c \
	tests/kernels/test_kernels_loss.c tests/kernels/test_kernels_groupnorm.c \
	tests/kernels/test_kernels_transformer.c
tests_kernels_test_kernels_LDADD = $(TEST_LIBS)
tests_kernels_test_bf16_kernels_SOURCES = tests/kernels/test_bf16_kernels.c $(KERNEL_CHECKS) \
	tests/kernels/test_kernels_bf16.c tests/kernels/test_kernels_amx.c \
	tests/kernels/amx_emulator.c tests/kernels/amx_emulator.h
tests_kernels_test_bf16_kernels_LDADD = $(TEST_LIBS)
