/* The command line of the program starstep, with the models of another program. The library is
 * libstarstep-cli (pkg-config starstep-cli), beside libstarstep of the same version. */
#ifndef SS_APPS_STARSTEP_CLI_H
#define SS_APPS_STARSTEP_CLI_H

#ifdef __cplusplus
extern "C" {
#endif

/* Run the command line (train, eval, plan, launch, data, ...), including the models of
 * ss_model_add(). argv as passed to main(), including argv[0]. Returns the exit code for main():
 * 0 done, 1 failed (reported), 2 wrong usage, 3 ended by a signal with a checkpoint, 4 diverged.
 *
 * In a process of a multi-rank run it must be the only call: it finalizes MPI. Handlers that a
 * training has installed for SIGTERM, SIGUSR1, SIGINT and SIGHUP remain. */
int ss_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
