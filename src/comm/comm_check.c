/* comm_check.c: start-up checks between ranks: equal options, and sums that come out right. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_ops.h"
#include "core/log.h"

enum { MAX_TEXT = 4096 };

/* FNV-1a, 64 bits. Fowler, Noll, Vo, "The FNV non-cryptographic hash algorithm". */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    } while (*text++);
    return hash;
}

/* Rank 0: `all` holds size records of `bytes`, each a name and a value. Reports the first rank that
 * differs. */
static enum ss_status report_difference(const struct ss_comm *comm, const char *all, size_t bytes)
{
    const char *value = all + strlen(all) + 1;
    for (int r = 1; r < comm->size; r++) {
        const char *other = all + (size_t)r * bytes, *other_value = other + strlen(other) + 1;
        if (strcmp(all, other) != 0)
            return ss_fail(
                SS_ERR_MISMATCH,
                "rank 0 checks %s while rank %d checks %s; start all ranks with the same "
                "program and options",
                all, r, other);
        if (strcmp(value, other_value) != 0)
            return ss_fail(SS_ERR_MISMATCH,
                           "%s differs: rank 0 has %s, rank %d has %s; give all ranks the same",
                           all, value, r, other_value);
    }
    return ss_fail(SS_ERR_MISMATCH, "%s differs between ranks after its first %d characters", all,
                   MAX_TEXT);
}

/* Collective, after a difference was found: all texts to rank 0, which reports. */
static enum ss_status find_difference(struct ss_comm *comm, const char *name, const char *value,
                                      size_t longest)
{
    size_t bytes = longest < MAX_TEXT ? longest : MAX_TEXT;
    char *mine = calloc(1, bytes + 1), *all = NULL;
    if (comm->rank == 0)
        all = calloc((size_t)comm->size, bytes);
    if (!mine || (comm->rank == 0 && !all)) {
        ss_fail_memory("the comparison of options", bytes * (size_t)comm->size);
        ss_comm_abort(comm, SS_ERR_MEMORY);
    } else {
        /* Cut so that both texts keep an end even when they are too long. */
        size_t name_bytes = strnlen(name, bytes / 2 - 1);
        memcpy(mine, name, name_bytes);
        memcpy(mine + name_bytes + 1, value, strnlen(value, bytes - name_bytes - 2));
        struct ss_comm_request gather = {.kind = SS_COMM_GATHER,
                                         .data = mine,
                                         .count = bytes,
                                         .gathered = all,
                                         .what = "comparison of options"};
        if (ss_comm_run(comm, &gather) == SS_OK && comm->rank == 0)
            report_difference(comm, all, bytes);
    }
    free(mine);
    free(all);
    /* A rank that ended now could take rank 0 down before its message is out. */
    ss_comm_barrier(comm, "comparison of options");
    return SS_ERR_MISMATCH;
}

enum ss_status ss_comm_check_equal(struct ss_comm *comm, const char *name, const char *value)
{
    uint64_t hash = hash_text(hash_text(0xcbf29ce484222325u, name), value);
    /* The maximum of ~hash is ~minimum, so one reduction gives both ends. */
    uint64_t ends[3] = {hash, ~hash, strlen(name) + strlen(value) + 2};
    struct ss_comm_request request = {
        .kind = SS_COMM_MAX_U64, .data = ends, .count = 3, .what = "comparison of options"};
    SS_TRY(ss_comm_run(comm, &request));
    if (ends[0] == ~ends[1])
        return SS_OK;
    /* Room for the longer text of each kind on any rank. */
    return find_difference(comm, name, value, 2 * ends[2] + 2);
}

float ss_comm_known_value(int rank, size_t i)
{
    return (float)((rank % 61 + 1) * (int)(i % 61 + 1));
}

float ss_comm_known_factor(const struct ss_comm *comm)
{
    float per_rank = 0;
    for (int r = 0; r < comm->size; r++)
        per_rank += ss_comm_known_value(r, 0);
    return per_rank;
}

static enum ss_status verify_count(struct ss_comm *comm, size_t count)
{
    const float per_rank = ss_comm_known_factor(comm);
    float *data = malloc((count ? count : 1) * sizeof(*data));
    if (!data) {
        /* The others wait in the all-reduce. */
        enum ss_status memory = ss_fail_memory("the start-up check", count * sizeof(*data));
        ss_comm_abort(comm, memory);
        return memory;
    }
    for (size_t i = 0; i < count; i++)
        data[i] = ss_comm_known_value(comm->rank, i);
    struct ss_comm_request request = {
        .kind = SS_COMM_SUM_F32, .data = data, .count = count, .what = "start-up check"};
    enum ss_status status = ss_comm_run(comm, &request);
    for (size_t i = 0; status == SS_OK && i < count; i++) {
        float want = per_rank * (float)(i % 61 + 1);
        if (data[i] != want)
            status =
                ss_fail(SS_ERR_COMM,
                        "start-up check: all-reduce of %zu floats over %d ranks: element %zu "
                        "is %.9g, expected %.9g; the network or %s corrupts data",
                        count, comm->size, i, (double)data[i], (double)want, ss_comm_library());
    }
    free(data);
    return status;
}

enum ss_status ss_comm_verify(struct ss_comm *comm, const size_t *counts, size_t ncounts)
{
    enum ss_status status = SS_OK;
    int any = 0;
    /* A rank that sees no error must still take part for those that do. */
    for (size_t i = 0; i < ncounts && status != SS_ERR_UNSUPPORTED; i++) {
        enum ss_status one = verify_count(comm, counts[i]);
        status = status == SS_OK ? one : status;
    }
    SS_TRY(ss_comm_any(comm, status != SS_OK, &any, "start-up check"));
    return any ? SS_ERR_COMM : SS_OK;
}
