libstarstep_la_SOURCES += \
	graphs/models.c graphs/models.h \
	graphs/wideresnet.c
