APPS_SOURCES += src/apps/trace/interval.c src/apps/trace/interval.h src/apps/trace/depend.c \
	src/apps/trace/depend.h src/apps/trace/analyse.c src/apps/trace/analyse.h src/apps/trace/analyse_internal.h \
	src/apps/trace/analyse_sums.c src/apps/trace/analyse_use.c src/apps/trace/analyse_run.c src/apps/trace/rank_sums.c \
	src/apps/trace/rank_sums.h src/apps/trace/verdict.c src/apps/trace/verdict.h src/apps/trace/trace_report.c \
	src/apps/trace/trace_report.h src/apps/trace/trace_report_json.c src/apps/trace/starpu_rec.c \
	src/apps/trace/starpu_rec.h src/apps/trace/starpu_report.c src/apps/trace/export.c src/apps/trace/export.h \
	src/apps/trace/export_rows.c src/apps/trace/export_rows.h src/apps/trace/export_flow.c src/apps/trace/export_flow.h \
	src/apps/trace/export_chrome.c src/apps/trace/export_chrome.h src/apps/trace/export_html.c \
	src/apps/trace/export_html.h
