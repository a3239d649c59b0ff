APPS_SOURCES += \
	src/apps/monitor/columns.h \
	src/apps/monitor/nvml.c src/apps/monitor/nvml.h \
	src/apps/monitor/lines.c src/apps/monitor/lines.h \
	src/apps/monitor/process.c src/apps/monitor/process.h \
	src/apps/monitor/process_stat.c src/apps/monitor/process_stat.h \
	src/apps/monitor/monitor.c src/apps/monitor/monitor.h \
	src/apps/monitor/samples.c src/apps/monitor/samples.h src/apps/monitor/stats.c \
	src/apps/monitor/monitor_report.c src/apps/monitor/monitor_report.h src/apps/monitor/draw.c
