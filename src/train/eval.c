/* eval.c: evaluation without training (interface in train.h). */
#include "core/clock.h"
#include "core/log.h"
#include "train/journal.h"
#include "train/session.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>

static void report(struct ss_session *s, const struct ss_metrics *m, size_t skipped, double seconds,
                   struct ss_journal *journal)
{
    double loss = m->bad > 0 ? NAN : m->loss / m->count, accuracy = m->correct / m->count,
           top5 = m->top5 / m->count;
    printf("Evaluated %s, the weights of %s\n", ss_graph_name(s->graph), s->options->init);
    printf("Validation loss=%.6f, Accuracy=%.4f (%.0f of %.0f images) in %.2fs, Top-5=%.4f\n", loss,
           accuracy, m->correct, m->count, seconds, top5);
    if (s->options->skip_corrupt)
        printf("Corrupt files skipped: %zu\n", skipped);
    ss_journal_event(journal, "eval", "val_loss", 'f', loss, "val_accuracy", 'f', accuracy,
                     "val_images", 'i', (int64_t)m->count, "time", 'f', seconds, "ranks", 'i',
                     (int64_t)ss_comm_size(s->comm), "skipped_files", 'i', (int64_t)skipped,
                     "val_top5", 'f', top5, NULL);
}

/* All ranks return the same status; rank 0 reports it. */
static enum ss_status check_finite(const struct ss_session *s, const struct ss_metrics *m)
{
    if (m->bad == 0)
        return SS_OK;
    return ss_comm_rank(s->comm) ? SS_ERR_DIVERGED
                                 : ss_fail(SS_ERR_DIVERGED,
                                           "%s: the loss of %.0f of %.0f images is not finite, so "
                                           "the accuracy is meaningless",
                                           s->options->init, m->bad, m->count);
}

static enum ss_status run(struct ss_session *s, double begin,
                          const struct ss_train_callbacks *callbacks)
{
    struct ss_metrics m;
    struct ss_journal journal;
    size_t skipped = 0;
    int first = ss_comm_rank(s->comm) == 0;
    SS_TRY(ss_session_agree(s, ss_journal_open(&journal, s->options->log_json, first),
                            "opening the log"));
    enum ss_status status = ss_session_evaluate(s, &m);
    if (status == SS_OK)
        status = ss_session_count_skipped(s, &skipped);
    if (status == SS_OK && callbacks->evaluation)
        *callbacks->evaluation = m;
    if (status == SS_OK && first)
        report(s, &m, skipped, ss_seconds() - begin, &journal);
    if (status == SS_OK)
        status = check_finite(s, &m);
    enum ss_status closed = ss_journal_close(&journal);
    return status == SS_OK ? ss_session_agree(s, closed, "closing the log") : status;
}

enum ss_status ss_eval_run(struct ss_train_options *options,
                           const struct ss_train_callbacks *callbacks)
{
    struct ss_session s;
    struct ss_report none = {0};
    double begin = ss_seconds();
    if (!options->init)
        return ss_fail(
            SS_ERR_INVALID,
            "eval: --init is missing; name a checkpoint, or the model.safetensors to evaluate");
    enum ss_status status = ss_session_open(&s, options, 0, none);
    if (status == SS_OK)
        status = run(&s, begin, callbacks);
    if (s.runtime_started && !ss_run_ok(&s.runtime.run))
        ss_comm_abort(s.comm, status);
    ss_session_close(&s);
    return status;
}
