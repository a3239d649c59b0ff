/* Log and progress of a run: a JSON line per event in a file, and the progress of the epoch
 * (core/progress.h). Only rank 0 enables it; on other ranks all functions do nothing. */
#ifndef SS_TRAIN_JOURNAL_H
#define SS_TRAIN_JOURNAL_H

#include "core/progress.h"

#include <stdint.h>
#include <stdio.h>

struct ss_journal {
    FILE *json;       /* NULL: no file */
    const char *path; /* path of the file */
    int failed;       /* writing failed; reported once */
    int enabled;
    struct ss_progress progress;
};

/* Open a new log. path NULL: no file. Errors: SS_ERR_IO; those of ss_progress_open(). */
enum ss_status ss_journal_open(struct ss_journal *j, const char *path, int enabled);
/* Like ss_journal_open with enabled 1, but append after the complete lines of an existing
 * file. */
enum ss_status ss_journal_append(struct ss_journal *j, const char *path);
/* Errors: SS_ERR_IO if any write failed. */
enum ss_status ss_journal_close(struct ss_journal *j);

/* Write an event as {"event":EVENT, ...} from key, type, value triples, terminated by NULL.
 * Types: 'i' (int64_t), 'f' (double; written as null if not finite), 's' (const char *). Each
 * line is flushed, so a killed run leaves all events in the file. */
void ss_journal_event(struct ss_journal *j, const char *event, ...);

/* Report `step` of `steps` completed steps: redraw the bar, or print a line, if due. */
void ss_journal_progress(struct ss_journal *j, long epoch, long epochs, long step, long steps,
                         double loss, double images_per_s);
/* Erase the bar before other output. */
void ss_journal_end_progress(struct ss_journal *j);

#endif
