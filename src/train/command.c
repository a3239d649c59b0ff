#include "train/command.h"
#include "train/start_weights.h"

#include <signal.h>

static enum ss_status train(struct ss_train_options *o, const struct ss_train_callbacks *callbacks)
{
    /* A closed output pipe must not end a long training; main() reports the error at the end. */
    signal(SIGPIPE, SIG_IGN);
    return o->check ? ss_train_check_only(o) : ss_train_run(o, callbacks);
}

static enum ss_status predict(struct ss_train_options *o,
                              const struct ss_train_callbacks *callbacks)
{
    (void)callbacks;
    return ss_predict_run(o);
}

const struct ss_train_command ss_train_command = {"train", SS_TRAIN_OF_TRAIN, train},
                              ss_eval_command = {"eval", SS_TRAIN_OF_EVAL, ss_eval_run},
                              ss_predict_command = {"predict", SS_TRAIN_OF_PREDICT, predict};

enum ss_status ss_train_command_run(const struct ss_train_command *command,
                                    struct ss_train_options *o,
                                    const struct ss_train_callbacks *callbacks)
{
    struct ss_start_weights found;
    SS_TRY(ss_start_weights_find(o, &found));
    return command->run(o, callbacks);
}
