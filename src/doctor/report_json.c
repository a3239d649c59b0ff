/* report_json.c: the report as one JSON object. */
#include "core/atomic_file.h"
#include "core/json_text.h"
#include "doctor/report.h"

static void put_ranks(struct ss_atomic_file *f, const struct ss_report *report,
                      const struct ss_diagnosis *d)
{
    const char *before = "";
    for (int r = 0; r < report->ranks; r++) {
        if (!d->has[r])
            continue;
        ss_json_put(f, "%.1s%d", before, r);
        before = ",";
    }
}

static void put_diagnosis(struct ss_atomic_file *f, const struct ss_report *report,
                          const struct ss_diagnosis *d)
{
    const struct ss_finding *one = d->finding;
    ss_json_put(f, "{'check':%s,'verdict':%s,'text':%s", one->check, ss_verdict_name(one->verdict),
                one->text);
    if (*one->advice)
        ss_json_put(f, ",'advice':%s", one->advice);
    if (one->has_figure)
        ss_json_put(f, ",'least':%g,'most':%g,'unit':%s", d->least, d->most, one->unit);
    if (one->has_figure && one->expected >= 0)
        ss_json_put(f, ",'expected':%g", one->expected);
    ss_json_put(f, ",'ranks':[");
    put_ranks(f, report, d);
    ss_json_put(f, "]}");
}

enum ss_status ss_report_write(const struct ss_report *report, const char *path)
{
    struct ss_atomic_file *f;
    SS_TRY(ss_atomic_open(path, &f));
    ss_json_put(f, "{'format':'starstep-doctor','version':1,'verdict':%s,'hosts':[",
                ss_verdict_name(ss_report_verdict(report)));
    for (int r = 0; r < report->ranks; r++)
        ss_json_put(f, "%.1s%s", r ? "," : "", report->all[r].host);
    ss_json_put(f, "],\n'findings':[\n");
    for (int i = 0; i < report->count; i++) {
        put_diagnosis(f, report, &report->diagnosis[i]);
        ss_json_put(f, "%.2s", i + 1 < report->count ? ",\n" : "\n");
    }
    ss_json_put(f, "]}\n");
    return ss_atomic_commit(f);
}
