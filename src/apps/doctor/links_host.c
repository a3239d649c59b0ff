#include "core/log.h"
#include "apps/doctor/links.h"

#include <stdlib.h>
#include <string.h>

struct host {
    struct ss_comm *comm;
    char *memory[2];
};

static enum ss_status put(void *state, enum ss_links_memory memory, const void *host, size_t bytes)
{
    struct host *h = state;
    memcpy(h->memory[memory], host, bytes);
    return SS_OK;
}

static enum ss_status get(void *state, enum ss_links_memory memory, void *host, size_t bytes)
{
    struct host *h = state;
    memcpy(host, h->memory[memory], bytes);
    return SS_OK;
}

static enum ss_status sum(void *state, size_t count)
{
    struct host *h = state;
    return ss_comm_allreduce_f32(h->comm, (float *)(void *)h->memory[SS_LINKS_DATA], count,
                                 SS_LINKS);
}

static enum ss_status exchange(void *state, int to, int from, size_t bytes)
{
    struct host *h = state;
    return ss_comm_exchange(h->comm, h->memory[SS_LINKS_DATA], to, h->memory[SS_LINKS_RECEIVED],
                            from, bytes, SS_LINKS);
}

static enum ss_status finish(void *state)
{
    (void)state;
    return SS_OK;
}

static void close_host(void *state)
{
    struct host *h = state;
    free(h->memory[0]);
    free(h->memory[1]);
    free(h);
}

enum ss_status ss_links_open_host(struct ss_comm *comm, size_t bytes, struct ss_links_plane *out)
{
    struct host *h = calloc(1, sizeof *h);
    if (!h)
        return ss_fail_memory("the link check", sizeof *h);
    h->comm = comm;
    for (int i = 0; i < 2; i++)
        h->memory[i] = calloc(1, bytes);
    if (!h->memory[0] || !h->memory[1]) {
        close_host(h);
        return ss_fail_memory("the link check", 2 * bytes);
    }
    *out = (struct ss_links_plane){.name = ss_comm_library(),
                                   .state = h,
                                   .put = put,
                                   .get = get,
                                   .sum = sum,
                                   .exchange = exchange,
                                   .finish = finish,
                                   .close = close_host};
    return SS_OK;
}
