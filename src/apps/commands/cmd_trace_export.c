/* cmd_trace_export.c: starstep trace export, for Perfetto, Holistic Trace Analysis and a
 * browser. */
#include "apps/commands/commands.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/options.h"
#include "apps/trace/export_chrome.h"
#include "apps/trace/export_html.h"
#include "trace/steps.h"

#include <stdio.h>
#include <string.h>

struct export_arguments {
    const char *dir, *steps, *chrome, *html;
    int64_t first, last;
};

static const struct ss_option rows[] = {
    SS_OPTION_TEXT(struct export_arguments, chrome, "--chrome", NULL, "FILE", "output for Perfetto",
                   .default_ = "DIR/trace.json"),
    SS_OPTION_TEXT(struct export_arguments, html, "--html", NULL, "FILE", "output for a browser",
                   .default_ = "DIR/trace.html"),
    SS_OPTION_TEXT(struct export_arguments, steps, "--steps", NULL, "A-B", "only these steps"),
    {0}};
static const struct ss_option_elsewhere elsewhere[] = {
    {"--paje", "StarPU's starpu_fxt_tool writes paje.trace (docs/trace.md)"}, {0}};

static enum ss_status write_files(const struct export_arguments *a, const struct ss_export *e)
{
    char chrome[4096], html[4096], hta[4096];
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
    const struct ss_option_set sets[] = {{.rows = rows, .values = &a, .elsewhere = elsewhere}, {0}};
    int code = ss_cli_parse_dir(command, "trace",
                                "Export a run traced with --trace DIR: Chrome trace events for "
                                "Perfetto, an HTML page,\nand DIR/hta for Holistic Trace Analysis.",
                                sets, argc, argv, &a.dir);
    if (code >= 0)
        return code;
    if (ss_trace_parse_steps("--steps", a.steps, &a.first, &a.last) != SS_OK)
        return SS_EXIT_USAGE;
    return ss_exit_code(export_all(&a));
}
