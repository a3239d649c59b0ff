/* launch_ranks.c: starstep launch with scripted ranks, for tests/comm/test_launch.sh.
 *
 *     launch_ranks launch OPTION... info MODE [ARGUMENT]
 *
 *     env             print this rank's variables, files and process group
 *     exe             print the paths of the program and its libraries
 *     exit CODE RANK  RANK exits with CODE, the others wait
 *     meet            open the communicator and run collectives until one rank receives a signal,
 *                     as in training: the first signal requests a stop, the second terminates
 *
 * In modes exit and meet each rank writes its process id to $WORK/pid.RANK. In mode meet rank 1
 * does not start while $WORK/hold exists. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "apps/commands/commands.h"
#include "comm/comm.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/signals.h"
#include "train/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int asked;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&asked, 1);
}

static const char *value(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "-";
}

static int env(void)
{
    char in[256] = "";
    char *secret = getenv("STARSTEP_SECRET");
    if (readlink("/proc/self/fd/0", in, sizeof in - 1) < 0)
        return EXIT_FAILURE;
    printf("rank %s of %s, local %s of %s, listener %d, secret of %zu, input %s, own group %d, "
           "job %s, procid %s, agent %s\n",
           value("RANK"), value("WORLD_SIZE"), value("LOCAL_RANK"), value("LOCAL_WORLD_SIZE"),
           getenv("STARSTEP_LISTEN_FD") != NULL, secret ? strlen(secret) : 0, in,
           getpgid(0) == getpid(), value("SLURM_JOB_ID"), value("SLURM_PROCID"),
           value("TORCHELASTIC_USE_AGENT_STORE"));
    fflush(stdout);
    fprintf(stderr, "error of rank %s\n", value("RANK"));
    return EXIT_SUCCESS;
}

static int exe(void)
{
    char path[4096] = "";
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return EXIT_FAILURE;
    printf("%s\n%s\n", path, value("LD_LIBRARY_PATH"));
    return EXIT_SUCCESS;
}

/* Write under another name, then rename: readers never see a partial file. */
static int leave_number(const char *rank)
{
    char path[4096], whole[4096];
    snprintf(path, sizeof path, "%s/new.%s", value("WORK"), rank);
    snprintf(whole, sizeof whole, "%s/pid.%s", value("WORK"), rank);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0)
        return 0;
    return rename(path, whole) == 0;
}

static int meet(void)
{
    struct ss_comm_config config = {"auto", 60};
    struct ss_comm *comm;
    int any = 0;
    while (strcmp(value("RANK"), "1") == 0 && ss_folder_has(value("WORK"), "hold"))
        usleep(20000);
    if (ss_comm_open(&config, &comm) != SS_OK)
        return EXIT_FAILURE;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < SS_STOP_SIGNALS; i++)
        if (!ss_signal_is_ignored(ss_stop_signals[i]))
            sigaction(ss_stop_signals[i], &action, NULL);
    if (!leave_number(value("RANK")))
        return EXIT_FAILURE;
    while (!any) {
        if (ss_comm_any(comm, atomic_load(&asked), &any, "stop request") != SS_OK)
            return EXIT_FAILURE;
        usleep(10000);
    }
    printf("%s stops over %s\n", value("RANK"), ss_comm_backend(comm));
    fflush(stdout);
    while (getenv("LINGER"))
        pause();
    ss_comm_close(comm);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "launch") == 0)
        return ss_cmd_launch(argc - 1, argv + 1);
    const char *mode = argc > 2 ? argv[2] : "";
    if (strcmp(mode, "env") == 0)
        return env();
    if (strcmp(mode, "exe") == 0)
        return exe();
    if (strcmp(mode, "meet") == 0)
        return meet();
    if (strcmp(mode, "exit") != 0 || argc != 5)
        return 2;
    if (!leave_number(value("RANK")))
        return EXIT_FAILURE;
    while (strcmp(value("RANK"), argv[4]) != 0)
        pause();
    return atoi(argv[3]);
}
