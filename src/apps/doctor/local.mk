APPS_SOURCES += \
	src/apps/doctor/doctor.c src/apps/doctor/doctor.h \
	src/apps/doctor/finding.c src/apps/doctor/finding.h \
	src/apps/doctor/doctor_report.c src/apps/doctor/doctor_report_hosts.c src/apps/doctor/doctor_report_json.c src/apps/doctor/doctor_report.h \
	src/apps/doctor/procfs.c src/apps/doctor/procfs.h \
	src/apps/doctor/library.c src/apps/doctor/library.h \
	src/apps/doctor/rules.c src/apps/doctor/rules.h \
	src/apps/doctor/folders.c src/apps/doctor/folders.h \
	src/apps/doctor/check_machine.c src/apps/doctor/check_cores.c src/apps/doctor/check_memory.c src/apps/doctor/check_gpu.c \
	src/apps/doctor/check_net.c src/apps/doctor/check_libraries.c src/apps/doctor/check_variables.c src/apps/doctor/check_files.c \
	src/apps/doctor/check_ranks.c src/apps/doctor/check_speed.c src/apps/doctor/speed.h src/apps/doctor/check_loader.c \
	src/apps/doctor/check_links.c src/apps/doctor/links.h src/apps/doctor/links_host.c src/apps/doctor/links_measure.c \
	src/apps/doctor/links_messages.c src/apps/doctor/links_all_reduce.c src/apps/doctor/nvlink.c
if HAVE_NCCL
APPS_SOURCES += src/apps/doctor/links_gpu.c
endif
