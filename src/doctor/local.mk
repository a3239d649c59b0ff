libstarstep_la_SOURCES += \
	src/doctor/doctor.c src/doctor/doctor.h \
	src/doctor/finding.c src/doctor/finding.h \
	src/doctor/report.c src/doctor/report_hosts.c src/doctor/report_json.c src/doctor/report.h \
	src/doctor/look.c src/doctor/look.h \
	src/doctor/interface.c src/doctor/interface.h \
	src/doctor/library.c src/doctor/library.h \
	src/doctor/rules.c src/doctor/rules.h \
	src/doctor/folders.c src/doctor/folders.h \
	src/doctor/check_machine.c src/doctor/check_cores.c src/doctor/check_memory.c src/doctor/check_gpu.c \
	src/doctor/check_net.c src/doctor/check_libraries.c src/doctor/check_variables.c src/doctor/check_files.c \
	src/doctor/check_ranks.c src/doctor/check_loader.c
