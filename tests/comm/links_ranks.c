/* links_ranks.c: one rank that runs the link check of `starstep doctor`, for
 * tests/comm/test_links.sh and tests/gpu/test_gpu_links.sh.
 *
 *     links_ranks cpu|cuda SECONDS LINK_GBIT TIMEOUT [RANK]     RANK does not enter the check
 *
 * Rank 0 prints a line for each finding: verdict, check, measured value, expected value, text. Exit
 * code 1 if a finding is "broken". WRONG_ELEMENT (environment): index of the float that rank 0
 * corrupts in each full-size piece of a message over MPI. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "core/log.h"
#include "apps/doctor/doctor.h"
#include "tests/comm/ranks_common.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_MPI
#    include "comm/comm_mpi.h"

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const char *wrong = getenv("WRONG_ELEMENT");
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (wrong && rank == 0 && type == MPI_BYTE && count == SS_MPI_EXCHANGE_PIECE)
        ((float *)(uintptr_t)data)[atoi(wrong)] = -3;
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}
#endif

int main(int argc, char **argv)
{
    REQUIRE(argc == 5 || argc == 6);
    const struct ss_doctor_options o = {.device =
                                            strcmp(argv[1], "cpu") ? SS_DOCTOR_CUDA : SS_DOCTOR_CPU,
                                        .seconds = atof(argv[2]),
                                        .link_gbit = atof(argv[3]),
                                        .timeout_s = atof(argv[4]),
                                        .root = ""};
    const struct ss_comm_config config = {.backend = "auto", .timeout_s = o.timeout_s};
    static struct ss_findings f;
    struct ss_comm *comm;
    int broken = 0;
    REQUIRE(ss_comm_open(&config, &comm) == SS_OK);
    while (argc == 6 && atoi(argv[5]) == ss_comm_rank(comm))
        pause();
    ss_doctor_links(&o, comm, &f);
    for (int i = 0; i < f.count; i++) {
        const struct ss_finding *one = &f.finding[i];
        printf("%s %s %.4g %.4g %s%s%s\n", ss_verdict_name(one->verdict), one->check,
               one->has_figure ? one->value : -1, one->has_figure ? one->expected : -1, one->text,
               *one->advice ? "; " : "", one->advice);
        broken |= one->verdict == SS_BROKEN;
    }
    REQUIRE(f.count > 0 || ss_comm_rank(comm) != 0);
    ss_comm_close(comm);
    return broken ? EXIT_FAILURE : EXIT_SUCCESS;
}
