libstarstep_la_SOURCES += \
	src/doctor/doctor.c src/doctor/doctor.h \
	src/doctor/finding.c src/doctor/finding.h \
	src/doctor/doctor_report.c src/doctor/doctor_report_hosts.c src/doctor/doctor_report_json.c src/doctor/doctor_report.h \
	src/doctor/procfs.c src/doctor/procfs.h \
	src/doctor/library.c src/doctor/library.h \
	src/doctor/rules.c src/doctor/rules.h \
	src/doctor/folders.c src/doctor/folders.h \
	src/doctor/check_machine.c src/doctor/check_cores.c src/doctor/check_memory.c src/doctor/check_gpu.c \
	src/doctor/check_net.c src/doctor/check_libraries.c src/doctor/check_variables.c src/doctor/check_files.c \
	src/doctor/check_ranks.c src/doctor/check_speed.c src/doctor/speed.h src/doctor/check_loader.c \
	src/doctor/check_links.c src/doctor/links.h src/doctor/links_host.c src/doctor/links_measure.c \
	src/doctor/links_messages.c src/doctor/links_all_reduce.c src/doctor/nvlink.c
if HAVE_NCCL
libstarstep_la_SOURCES += src/doctor/links_gpu.c
endif
