libstarstep_la_SOURCES += \
	graphs/models.c graphs/models.h \
	graphs/resnet50.c \
	graphs/vgg.c \
	graphs/wideresnet.c
