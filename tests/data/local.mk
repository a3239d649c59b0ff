UNIT_TESTS += tests/data/test_data tests/data/test_jpeg tests/data/test_png \
	tests/data/test_resize tests/data/test_imagefolder tests/data/test_pack tests/data/test_pack_damage \
	tests/data/test_images_torchvision tests/data/test_mix
tests_data_test_data_SOURCES = tests/data/test_data.c tests/data_common.h
tests_data_test_data_LDADD = $(TEST_LIBS) -lm
tests_data_test_jpeg_SOURCES = tests/data/test_jpeg.c tests/data_common.h tests/data/data_images.h
tests_data_test_jpeg_LDADD = $(TEST_LIBS)
tests_data_test_png_SOURCES = tests/data/test_png.c tests/data_common.h
tests_data_test_png_LDADD = $(TEST_LIBS) $(PNG_LIBS)
tests_data_test_resize_SOURCES = tests/data/test_resize.c tests/data_common.h tests/data/data_images.h
tests_data_test_resize_LDADD = $(TEST_LIBS) -lm
tests_data_test_imagefolder_SOURCES = tests/data/test_imagefolder.c tests/data_common.h
tests_data_test_imagefolder_LDADD = $(TEST_LIBS)
tests_data_test_pack_SOURCES = tests/data/test_pack.c tests/data/pack_common.h tests/data_common.h tests/data/data_images.h
tests_data_test_pack_LDADD = $(TEST_LIBS)
tests_data_test_pack_damage_SOURCES = tests/data/test_pack_damage.c tests/data/pack_common.h tests/data_common.h \
	tests/data/data_images.h
tests_data_test_pack_damage_LDADD = $(TEST_LIBS)
tests_data_test_images_torchvision_SOURCES = tests/data/test_images_torchvision.c tests/data_common.h
tests_data_test_images_torchvision_LDADD = $(TEST_LIBS) -lm
tests_data_test_mix_SOURCES = tests/data/test_mix.c tests/data_common.h
tests_data_test_mix_LDADD = $(TEST_LIBS) -lm
TESTS += tests/data/test_convert.sh tests/data/test_data_images.sh tests/data/test_data_kinds.sh tests/data/test_png_pillow.sh tests/data/test_data_pack.sh
