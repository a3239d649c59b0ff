/* eval.c: evaluation alone (contract in train.h). */
#include "core/clock.h"
#include "core/log.h"
#include "train/session.h"
#include "train/train.h"

#include <stdio.h>

enum ss_status ss_eval_run(struct ss_train_options *options)
{
    struct ss_session s;
    struct ss_metrics m;
    struct ss_report none = {0};
    double begin = ss_seconds();
    if (!options->init)
        return ss_fail(SS_ERR_INVALID,
                       "eval: --init is missing; name the model.safetensors to evaluate");
    enum ss_status status = ss_session_open(&s, options, 0, none);
    if (status == SS_OK)
        status = ss_session_evaluate(&s, &m);
    if (status == SS_OK && ss_comm_rank(s.comm) == 0)
        printf("Validation loss=%.6f, Accuracy=%.4f (%.0f of %.0f images) in %.2fs\n",
               m.loss / m.count, m.correct / m.count, m.correct, m.count, ss_seconds() - begin);
    size_t skipped = 0;
    if (status == SS_OK)
        status = ss_session_count_skipped(&s, &skipped);
    if (status == SS_OK && options->skip_corrupt && ss_comm_rank(s.comm) == 0)
        printf("Corrupt files skipped: %zu\n", skipped);
    if (s.runtime_started && !ss_run_ok(&s.runtime.run))
        ss_comm_abort(s.comm, status);
    ss_session_close(&s);
    return status;
}
