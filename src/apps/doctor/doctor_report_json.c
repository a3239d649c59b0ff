/* doctor_report_json.c: the report as one JSON object. */
#include "core/json_value.h"
#include "apps/doctor/doctor_report.h"

static json_t *of_ranks(const struct ss_doctor_report *report, const struct ss_diagnosis *d)
{
    json_t *out = json_array();
    for (int r = 0; r < report->ranks; r++)
        if (d->has[r])
            ss_json_append(&out, json_integer(r));
    return out;
}

static json_t *of_diagnosis(const struct ss_doctor_report *report, const struct ss_diagnosis *d)
{
    const struct ss_finding *one = d->finding;
    json_t *out = json_pack("{s:s,s:s,s:o}", "check", one->check, "verdict",
                            ss_verdict_name(one->verdict), "text", ss_json_text(one->text));
    if (*one->advice)
        ss_json_set(&out, "advice", ss_json_text(one->advice));
    if (one->has_figure) {
        ss_json_set(&out, "least", ss_json_number(d->least));
        ss_json_set(&out, "most", ss_json_number(d->most));
        ss_json_set(&out, "unit", ss_json_text(one->unit));
        if (one->expected >= 0)
            ss_json_set(&out, "expected", ss_json_number(one->expected));
    }
    ss_json_set(&out, "ranks", of_ranks(report, d));
    return out;
}

enum ss_status ss_doctor_report_write(const struct ss_doctor_report *report, const char *path)
{
    json_t *hosts = json_array(), *findings = json_array();
    for (int r = 0; r < report->ranks; r++)
        ss_json_append(&hosts, ss_json_text(report->all[r].host));
    for (int i = 0; i < report->count; i++)
        ss_json_append(&findings, of_diagnosis(report, &report->diagnosis[i]));
    return ss_json_save(json_pack("{s:s,s:i,s:s,s:o,s:o}", "format", "starstep-doctor", "version",
                                  1, "verdict", ss_verdict_name(ss_doctor_report_verdict(report)),
                                  "hosts", hosts, "findings", findings),
                        path);
}
