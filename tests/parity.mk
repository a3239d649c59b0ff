check_PROGRAMS += tests/parity_compare
tests_parity_compare_SOURCES = tests/parity_compare.c
tests_parity_compare_LDADD = libstarstep.la $(JANSSON_LIBS) -lm

if HAVE_DNNL
TESTS += tests/test_parity.sh
endif

EXTRA_DIST += \
	tests/test_parity.sh \
	tests/reference/cifar100.py \
	tests/reference/record.py \
	tests/reference/safetensors_io.py \
	tests/reference/wideresnet.py \
	tests/reference/versions.json \
	tests/reference/data/test.bin \
	tests/reference/data/train.bin \
	tests/reference/w8-16-24-32/init.safetensors \
	tests/reference/w8-16-24-32/ranks1.json \
	tests/reference/w8-16-24-32/ranks1.safetensors \
	tests/reference/w8-16-24-32/ranks2.json \
	tests/reference/w8-16-24-32/ranks2.safetensors \
	tests/reference/w8-16-24-32/ranks4.json \
	tests/reference/w8-16-24-32/ranks4.safetensors \
	tests/reference/w8-16-24-32/ranks8.json \
	tests/reference/w8-16-24-32/ranks8.safetensors \
	tests/reference/w12-20-24-40/init.safetensors \
	tests/reference/w12-20-24-40/ranks1.json \
	tests/reference/w12-20-24-40/ranks1.safetensors \
	tests/reference/w12-20-24-40/ranks2.json \
	tests/reference/w12-20-24-40/ranks2.safetensors \
	tests/reference/w12-20-24-40/ranks4.json \
	tests/reference/w12-20-24-40/ranks4.safetensors \
	tests/reference/w12-20-24-40/ranks8.json \
	tests/reference/w12-20-24-40/ranks8.safetensors
