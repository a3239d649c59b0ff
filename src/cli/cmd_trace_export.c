/* starstep trace export: a trace for Perfetto, Holistic Trace Analysis, a browser and Paje. */
#include "cli/cmd_trace.h"
#include "cli/commands.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/options.h"
#include "trace/export_chrome.h"
#include "trace/export_html.h"
#include "trace/export_paje.h"
#include "trace/steps.h"

#include <stdio.h>
#include <string.h>

struct export_arguments {
    const char *dir, *steps, *chrome, *html;
    int paje;
    int64_t first, last;
};

static enum ss_status write_files(const struct export_arguments *a, const struct ss_export *e)
{
    char chrome[4096], html[4096], hta[4096], paje[4096];
    SS_TRY(ss_folder_join(chrome, sizeof chrome, a->dir, "trace.json"));
    SS_TRY(ss_folder_join(html, sizeof html, a->dir, "trace.html"));
    SS_TRY(ss_folder_join(hta, sizeof hta, a->dir, "hta"));
    const char *to_chrome = a->chrome ? a->chrome : chrome, *to_html = a->html ? a->html : html;
    SS_TRY(ss_export_chrome(e, to_chrome));
    printf("%s: for Perfetto (ui.perfetto.dev)\n", to_chrome);
    SS_TRY(ss_export_html(e, to_html));
    printf("%s: for a browser\n", to_html);
    SS_TRY(ss_export_hta(e, hta));
    printf("%s: for Holistic Trace Analysis, %d rank%s\n", hta, e->count, e->count > 1 ? "s" : "");
    if (!a->paje)
        return SS_OK;
    SS_TRY(ss_folder_join(paje, sizeof paje, a->dir, "paje.trace"));
    SS_TRY(ss_export_paje(e, paje));
    printf("%s: for ViTE\n", paje);
    return SS_OK;
}

static enum ss_status export_all(const struct export_arguments *a)
{
    struct ss_export *e;
    SS_TRY(ss_export_load(a->dir, a->first, a->last, &e));
    if (e->count < e->ranks)
        ss_warn("%s: files of %d of %d ranks: the others are not shown", a->dir, e->count,
                e->ranks);
    enum ss_status status = write_files(a, e);
    ss_export_free(e);
    return status;
}

int ss_cmd_trace_export(int argc, char **argv)
{
    static char command[] = "trace export";
    struct export_arguments a = {0};
    const struct ss_option options[] = {
        {"chrome", SS_OPT_STRING, &a.chrome, 0, 0, "FILE",
         "where to write the events for Perfetto; without it DIR/trace.json"},
        {"html", SS_OPT_STRING, &a.html, 0, 0, "FILE",
         "where to write the page for a browser; without it DIR/trace.html"},
        {"steps", SS_OPT_STRING, &a.steps, 0, 0, "A-B", "only these steps"},
        {"paje", SS_OPT_FLAG, &a.paje, 0, 0, NULL,
         "also DIR/paje.trace, for programs that read the Paje format"},
        {NULL, SS_OPT_FLAG, NULL, 0, 0, NULL, NULL},
    };
    int code = ss_trace_parse(command,
                              "Files for other programs from a run traced with --trace DIR: events "
                              "for Perfetto, a page for a browser, DIR/hta for Holistic Trace "
                              "Analysis.",
                              options, argc, argv, &a.dir);
    if (code >= 0)
        return code;
    if (ss_trace_parse_steps("--steps", a.steps, &a.first, &a.last) != SS_OK)
        return 2;
    return ss_exit_code(export_all(&a));
}
