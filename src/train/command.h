/* The commands that run a network: train, eval and predict, for the command line and for ss_train()
 * and ss_eval(). */
#ifndef SS_TRAIN_COMMAND_H
#define SS_TRAIN_COMMAND_H

#include "train/train.h"

struct ss_train_command {
    const char *name; /* argv[0] of its options */
    unsigned groups;  /* of the options that it accepts: SS_TRAIN_OF_TRAIN and so on */
    enum ss_status (*run)(struct ss_train_options *o, const struct ss_train_callbacks *callbacks);
};
extern const struct ss_train_command ss_train_command, ss_eval_command, ss_predict_command;

/* Run the command with parsed options, from the weights of --init, which it finds first. Ignores
 * SIGPIPE from then on if it trains. Errors: those of ss_train_run(), already reported. */
enum ss_status ss_train_command_run(const struct ss_train_command *command,
                                    struct ss_train_options *o,
                                    const struct ss_train_callbacks *callbacks);

#endif
