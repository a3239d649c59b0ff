/* consistency_ranks.c: program run on every rank by tests/comm/test_consistency.sh.
 *
 *     consistency_ranks MODE     MODE selects the difference on the last rank: same (none), shown
 *                               (only the displayed text), value, missing, more, name, long; or
 *                               options: each training option in turn has another value there
 *
 * Exit code 0 if the ranks are reported as consistent, 3 if a difference is reported, 1 if this
 * test fails. */
#include "comm/comm.h"
#include "core/log.h"
#include "train/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACTS = 200, CHANGED = 100, LONG = 100000 };

static struct ss_comm_fact fact[FACTS + 1];
static char name[FACTS + 1][32], long_text[LONG + 1];

static size_t make_facts(const char *mode, int bad)
{
    for (int i = 0; i <= FACTS; i++) {
        snprintf(name[i], sizeof name[i], "option --o%d", i);
        fact[i] = (struct ss_comm_fact){.name = name[i], .value = i % 3 ? "1" : ""};
    }
    memset(long_text, 'x', LONG);
    fact[CHANGED + 1].value = long_text;
    fact[CHANGED].shown = bad ? "there" : "here";
    fact[CHANGED].advice = "do something";
    if (!bad || !strcmp(mode, "same") || !strcmp(mode, "shown"))
        return FACTS;
    if (!strcmp(mode, "value"))
        fact[CHANGED].value = "2";
    else if (!strcmp(mode, "name"))
        fact[CHANGED].name = "option --other";
    else if (!strcmp(mode, "long"))
        long_text[LONG - 1] = 'y';
    return FACTS + (size_t)!strcmp(mode, "more") - (size_t)!strcmp(mode, "missing");
}

static int compare(struct ss_comm *comm, const char *mode)
{
    struct ss_comm_totals before, after;
    size_t n = make_facts(mode, ss_comm_rank(comm) == ss_comm_size(comm) - 1);
    ss_comm_get_totals(comm, &before);
    enum ss_status status = ss_comm_check_facts(comm, "comparison of options", fact, n);
    ss_comm_get_totals(comm, &after);
    if (status == SS_ERR_MISMATCH)
        return 3;
    if (status != SS_OK || after.collectives - before.collectives != 1) {
        ss_fail(SS_ERR_COMM, "status %s after %llu collectives; one was expected",
                ss_status_name(status),
                (unsigned long long)(after.collectives - before.collectives));
        return 1;
    }
    return 0;
}

/* Set the option to a value other than the default. */
static void change(const struct ss_option *row, struct ss_train_options *o)
{
    void *at = (char *)o + row->offset;
    switch (row->type) {
    case SS_OPT_FLAG:
        *(int *)at = 1;
        break;
    case SS_OPT_INT:
        *(long *)at += 1;
        break;
    case SS_OPT_FLOAT:
        /* A minimal change must be detected. */
        *(double *)at += row->min < row->number ? -1e-9 : 1e-9;
        break;
    case SS_OPT_TEXT:
        *(const char **)at = "another";
        break;
    case SS_OPT_WORD:
        *(int *)at = row->words[1].value;
        break;
    case SS_OPT_SIZE:
        ((struct ss_size *)at)->width += 1;
        break;
    }
}

/* Return 0 if a difference in each option that must be consistent is reported with the option's
 * name, and other differences are accepted. */
static int compare_options(struct ss_comm *comm)
{
    int bad = ss_comm_rank(comm) == ss_comm_size(comm) - 1, failures = 0;
    ss_log_set_quiet(1);
    for (const struct ss_option *row = ss_train_rows; row->name; row++) {
        struct ss_train_options o = ss_train_defaults();
        enum ss_status want = row->marks & SS_TRAIN_OWN ? SS_OK : SS_ERR_MISMATCH;
        char message[96];
        if (bad)
            change(row, &o);
        snprintf(message, sizeof message, "option %s differs: rank 0 has ", row->name);
        enum ss_status status = ss_train_check_ranks(&o, comm);
        if (status == want &&
            (status == SS_OK || ss_comm_rank(comm) || strstr(ss_log_last_error(), message)))
            continue;
        fprintf(stderr, "%s: %s: %s\n", row->name, ss_status_name(status), ss_log_last_error());
        failures++;
    }
    return failures != 0;
}

int main(int argc, char **argv)
{
    struct ss_comm_config config = {.backend = "auto", .timeout_s = 30};
    struct ss_comm *comm;
    if (argc != 2) {
        fprintf(stderr, "usage: %s MODE\n", argv[0]);
        return 2;
    }
    if (ss_comm_open(&config, &comm) != SS_OK)
        return 1;
    int code = strcmp(argv[1], "options") ? compare(comm, argv[1]) : compare_options(comm);
    ss_comm_close(comm);
    return code;
}
