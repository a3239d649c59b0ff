check_PROGRAMS += tests/parity_compare tests/init_moments
tests_parity_compare_SOURCES = tests/parity_compare.c
tests_parity_compare_LDADD = libstarstep.la $(JANSSON_LIBS) -lm
tests_init_moments_SOURCES = tests/init_moments.c
tests_init_moments_LDADD = libstarstep.la -lm

check_PROGRAMS += tests/test_pictures_torchvision
tests_test_pictures_torchvision_SOURCES = tests/test_pictures_torchvision.c tests/data_common.h
tests_test_pictures_torchvision_LDADD = $(TEST_LIBS) -lm
TESTS += tests/test_pictures_torchvision

if HAVE_DNNL
TESTS += tests/test_parity.sh tests/test_parity_torchvision.sh tests/test_parity_pictures.sh \
	tests/test_init.sh
endif

EXTRA_DIST += \
	tests/test_parity.sh \
	tests/test_parity_torchvision.sh \
	tests/test_parity_pictures.sh \
	tests/full_parity.sh \
	tests/test_init.sh \
	tests/reference/cifar100.py \
	tests/reference/draws.py \
	tests/reference/folder_pictures.py \
	tests/reference/record.py \
	tests/reference/record_pictures.py \
	tests/reference/record_samples.py \
	tests/reference/record_torchvision.py \
	tests/reference/pictures \
	tests/reference/samples.txt \
	tests/reference/pictures-resnet50/init.safetensors \
	tests/reference/pictures-resnet50/ranks1.json \
	tests/reference/pictures-resnet50/ranks1.safetensors \
	tests/reference/pictures-resnet50/ranks2.json \
	tests/reference/pictures-resnet50/ranks2.safetensors \
	tests/reference/pictures-resnet50/ranks3.json \
	tests/reference/pictures-resnet50/ranks3.safetensors \
	tests/reference/safetensors_io.py \
	tests/reference/torchvision_models.py \
	tests/reference/wideresnet.py \
	tests/reference/versions.json \
	tests/reference/torchvision.json \
	tests/reference/resnet50.txt \
	tests/reference/vgg11_bn.txt \
	tests/reference/resnet50-w8-12-20-24/init.safetensors \
	tests/reference/resnet50-w8-12-20-24/ranks1.json \
	tests/reference/resnet50-w8-12-20-24/ranks1.safetensors \
	tests/reference/resnet50-w8-12-20-24/ranks2.json \
	tests/reference/resnet50-w8-12-20-24/ranks2.safetensors \
	tests/reference/vgg11_bn-w8-12-16-20-24-30/init.safetensors \
	tests/reference/vgg11_bn-w8-12-16-20-24-30/ranks1.json \
	tests/reference/vgg11_bn-w8-12-16-20-24-30/ranks1.safetensors \
	tests/reference/vgg11_bn-w8-12-16-20-24-30/ranks2.json \
	tests/reference/vgg11_bn-w8-12-16-20-24-30/ranks2.safetensors \
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
