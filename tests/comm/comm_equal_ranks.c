/* comm_equal_ranks.c: what every rank does in tests/comm/test_consistency.sh.
 *
 *     comm_equal_ranks MODE     MODE is what the last rank does: same, shown (only what is shown
 *                               differs), value, missing, more, name, long
 *
 * Exit code 0 when the ranks are found alike, 3 when a difference is found, 1 when
 * this test fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "core/log.h"

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
    int code = compare(comm, argv[1]);
    ss_comm_close(comm);
    return code;
}
