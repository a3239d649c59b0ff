libstarstep_la_SOURCES += \
	src/trace/format.h src/trace/array.h src/trace/json_text.c src/trace/json_text.h \
	src/trace/steps.c src/trace/steps.h \
	src/trace/record.c src/trace/record.h \
	src/trace/interval.c src/trace/interval.h \
	src/trace/read.c src/trace/read.h src/trace/read_internal.h \
	src/trace/read_base.c src/trace/read_object.c src/trace/read_event.c \
	src/trace/depend.c src/trace/depend.h \
	src/trace/analyse.c src/trace/analyse.h src/trace/analyse_internal.h \
	src/trace/analyse_sums.c src/trace/analyse_use.c src/trace/analyse_run.c \
	src/trace/rank_sums.c src/trace/rank_sums.h \
	src/trace/verdict.c src/trace/verdict.h \
	src/trace/trace_report.c src/trace/trace_report.h src/trace/trace_report_json.c \
	src/trace/starpu_rec.c src/trace/starpu_rec.h src/trace/starpu_report.c \
	src/trace/export.c src/trace/export.h src/trace/export_rows.c src/trace/export_rows.h \
	src/trace/export_flow.c src/trace/export_flow.h \
	src/trace/export_chrome.c src/trace/export_chrome.h \
	src/trace/export_html.c src/trace/export_html.h \
	src/trace/export_paje.c src/trace/export_paje.h \
	src/trace/export_paje_events.c src/trace/export_paje_internal.h
