/* What a run tells: a JSON line per event in a file, and how far its epoch is (core/progress.h). Only rank 0 has one that is open; on other ranks every function does nothing. */
#ifndef SS_TRAIN_JOURNAL_H
#define SS_TRAIN_JOURNAL_H

#include "core/progress.h"

#include <stdint.h>
#include <stdio.h>

struct ss_journal {
    FILE *json;       /* NULL: no file */
    const char *path; /* of it */
    int failed;       /* writing failed; reported once */
    int enabled;
    struct ss_progress progress;
};

/* path NULL: no file. Errors: SS_ERR_IO; SS_ERR_INVALID: of ss_progress_open(). */
enum ss_status ss_journal_open(struct ss_journal *j, const char *path, int enabled);
/* Enabled, and behind the whole lines that are in the file already. */
enum ss_status ss_journal_append(struct ss_journal *j, const char *path);
/* Errors: SS_ERR_IO when anything could not be written. */
enum ss_status ss_journal_close(struct ss_journal *j);

/* One event as {"event":EVENT, ...}: key, type, value triples, ended by NULL. Types: 'i' (int64_t),
 * 'f' (double; not finite becomes null), 's' (const char *). Each line is flushed: what has
 * happened is in the file when a run is killed. */
void ss_journal_event(struct ss_journal *j, const char *event, ...);

/* So many steps of an epoch are done: redraw the bar, or print a line, if it is time to. */
void ss_journal_progress(struct ss_journal *j, long epoch, long epochs, long step, long steps,
                         double loss, double images_per_s);
/* Other output follows: no bar is in its way. */
void ss_journal_end_progress(struct ss_journal *j);

#endif
