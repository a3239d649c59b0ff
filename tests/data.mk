check_PROGRAMS += tests/test_data tests/test_data_convert tests/fuzz_pickle
tests_test_data_SOURCES = tests/test_data.c tests/data_common.h
tests_test_data_LDADD = $(TEST_LIBS) -lm
tests_test_data_convert_SOURCES = tests/test_data_convert.c tests/data_common.h tests/data_pickle.h
tests_test_data_convert_LDADD = $(TEST_LIBS)
tests_fuzz_pickle_SOURCES = tests/fuzz_pickle.c tests/fuzz_bytes.h tests/data_pickle.h
tests_fuzz_pickle_LDADD = $(TEST_LIBS)
TESTS += tests/test_data tests/test_data_convert tests/fuzz_pickle

check_PROGRAMS += tests/test_jpeg tests/test_resize tests/test_imagefolder
check_PROGRAMS += tests/test_pack tests/test_pack_damage
tests_test_pack_SOURCES = tests/test_pack.c tests/pack_common.h tests/data_common.h tests/data_images.h
tests_test_pack_LDADD = $(TEST_LIBS)
tests_test_pack_damage_SOURCES = tests/test_pack_damage.c tests/pack_common.h tests/data_common.h \
	tests/data_images.h
tests_test_pack_damage_LDADD = $(TEST_LIBS)
tests_test_jpeg_SOURCES = tests/test_jpeg.c tests/data_common.h tests/data_images.h
tests_test_jpeg_LDADD = $(TEST_LIBS)
tests_test_resize_SOURCES = tests/test_resize.c tests/data_common.h tests/data_images.h
tests_test_resize_LDADD = $(TEST_LIBS) -lm
tests_test_imagefolder_SOURCES = tests/test_imagefolder.c tests/data_common.h
tests_test_imagefolder_LDADD = $(TEST_LIBS)
TESTS += tests/test_jpeg tests/test_resize tests/test_imagefolder tests/test_pack tests/test_pack_damage \
	tests/test_data_pictures.sh tests/test_data_pack.sh

EXTRA_DIST += tests/test_data_pictures.sh tests/test_data_pack.sh tests/reference/record_images.py \
	tests/reference/images/box0.ppm \
	tests/reference/images/box1.ppm \
	tests/reference/images/c420.jpg \
	tests/reference/images/c420.ppm \
	tests/reference/images/c422.jpg \
	tests/reference/images/c422.ppm \
	tests/reference/images/c444.jpg \
	tests/reference/images/c444.ppm \
	tests/reference/images/cases.txt \
	tests/reference/images/centre0.ppm \
	tests/reference/images/centre1.ppm \
	tests/reference/images/centre2.ppm \
	tests/reference/images/centre3.ppm \
	tests/reference/images/cmyk.jpg \
	tests/reference/images/cmyk.ppm \
	tests/reference/images/crop0.ppm \
	tests/reference/images/crop1.ppm \
	tests/reference/images/crop2.ppm \
	tests/reference/images/crop3.ppm \
	tests/reference/images/crop4.ppm \
	tests/reference/images/crop5.ppm \
	tests/reference/images/crop6.ppm \
	tests/reference/images/grey.jpg \
	tests/reference/images/grey.ppm \
	tests/reference/images/large-progressive.jpg \
	tests/reference/images/large.jpg \
	tests/reference/images/pixel.jpg \
	tests/reference/images/pixel.ppm \
	tests/reference/images/progressive.jpg \
	tests/reference/images/progressive.ppm \
	tests/reference/images/rotated.jpg \
	tests/reference/images/rotated.ppm \
	tests/reference/images/ycck.jpg \
	tests/reference/images/ycck.ppm
