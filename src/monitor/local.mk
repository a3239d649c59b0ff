libstarstep_la_SOURCES += \
	src/monitor/columns.h \
	src/monitor/nvml.c src/monitor/nvml.h \
	src/monitor/lines.c src/monitor/lines.h \
	src/monitor/process.c src/monitor/process.h \
	src/monitor/process_stat.c src/monitor/process_stat.h \
	src/monitor/monitor.c src/monitor/monitor.h \
	src/monitor/samples.c src/monitor/samples.h src/monitor/stats.c \
	src/monitor/monitor_report.c src/monitor/monitor_report.h src/monitor/draw.c
