/* What a run tells: a JSON line per event in a file, a progress bar and an epoch line on the
 * screen. Only rank 0 has one that is open; on other ranks every function does nothing. */
#ifndef SS_TRAIN_JOURNAL_H
#define SS_TRAIN_JOURNAL_H

#include "core/status.h"

#include <stdint.h>
#include <stdio.h>

struct ss_journal {
    FILE *json;       /* NULL: no file */
    const char *path; /* of it */
    int bar;          /* stderr is a terminal, or a bar is asked for */
    int failed;       /* writing failed; reported once */
    int bar_drawn;
    double bar_time; /* when the bar was last drawn */
};

/* path NULL: no file. Errors: SS_ERR_IO. */
enum ss_status ss_journal_open(struct ss_journal *j, const char *path, int enabled);
/* Enabled, and behind the whole lines that are in the file already. */
enum ss_status ss_journal_append(struct ss_journal *j, const char *path);
/* Errors: SS_ERR_IO when anything could not be written. */
enum ss_status ss_journal_close(struct ss_journal *j);

/* One event as {"event":EVENT, ...}: key, type, value triples, ended by NULL. Types: 'i' (int64_t),
 * 'f' (double; not finite becomes null), 's' (const char *). Each line is flushed: what has
 * happened is in the file when a run is killed. */
void ss_journal_event(struct ss_journal *j, const char *event, ...);

/* Redraw the bar, at most ten times a second. */
void ss_journal_bar(struct ss_journal *j, long epoch, long epochs, long step, long steps,
                    double loss, double images_per_s);
/* Remove it, before other output. */
void ss_journal_clear_bar(struct ss_journal *j);

#endif
