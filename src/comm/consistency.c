/* consistency.c: check that values are the same on all ranks. Without a difference this takes one
 * small exchange. After a difference rank 0 broadcasts its values, each rank finds its first
 * difference, and rank 0 reports. */
#include "comm/comm_base.h"
#include "core/log.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank's first difference from rank 0's facts, sent to rank 0; truncated if too long. */
struct difference {
    int32_t fact; /* its index; -1: no difference */
    char name[92], shown[928];
};

/* FNV-1a, 64 bits. Fowler, Noll, Vo, "The FNV non-cryptographic hash algorithm". */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    } while (*text++);
    return hash;
}

/* Bytes of the names and values, each terminated by a zero byte, and a final empty name. */
static size_t text_bytes(const struct ss_comm_fact *fact, size_t n)
{
    size_t bytes = 1;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(fact[i].name) + strlen(fact[i].value) + 2;
    return bytes;
}

static void put_text(const struct ss_comm_fact *fact, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++) {
        text = stpcpy(text, fact[i].name) + 1;
        text = stpcpy(text, fact[i].value) + 1;
    }
    *text = '\0';
}

static const char *shown_of(const struct ss_comm_fact *fact)
{
    return fact->shown ? fact->shown : fact->value;
}

/* Find this rank's first difference from rank 0's text. */
static void find(const struct ss_comm_fact *fact, size_t n, const char *root,
                 struct difference *out)
{
    size_t i = 0;
    for (; *root && i < n; i++) {
        const char *value = root + strlen(root) + 1;
        if (strcmp(root, fact[i].name) != 0 || strcmp(value, fact[i].value) != 0)
            break;
        root = value + strlen(value) + 1;
    }
    memset(out, 0, sizeof *out);
    out->fact = *root || i < n ? (int32_t)i : -1;
    snprintf(out->name, sizeof out->name, "%s", i < n ? fact[i].name : "nothing more");
    snprintf(out->shown, sizeof out->shown, "%s", i < n ? shown_of(&fact[i]) : "");
}

/* On rank 0: report the first rank that differs, and how many more do. */
static void report(const struct ss_comm *comm, const struct ss_comm_fact *fact, size_t n,
                   const struct difference *all)
{
    char more[48] = "";
    int first = 0, others = 0;
    for (int r = comm->size - 1; r > 0; r--)
        if (all[r].fact >= 0) {
            others += first > 0;
            first = r;
        }
    const struct difference *d = &all[first];
    size_t i = d->fact < 0 ? n : (size_t)d->fact;
    if (others > 0)
        snprintf(more, sizeof more, " (%d more rank%s from rank 0)", others,
                 others > 1 ? "s differ" : " differs");
    if (i >= n || strncmp(fact[i].name, d->name, sizeof d->name - 1) != 0)
        ss_fail(SS_ERR_MISMATCH,
                "rank 0 checks %s while rank %d checks %s%s; start all ranks with the same "
                "program and options",
                i < n ? fact[i].name : "nothing more", first, d->name, more);
    else
        ss_fail(SS_ERR_MISMATCH, "%s differs: rank 0 has %s, rank %d has %s%s; %s", fact[i].name,
                shown_of(&fact[i]), first, d->shown, more,
                fact[i].advice ? fact[i].advice : "give all ranks the same");
}

/* Collective, after a difference was detected. `longest`: bytes of the longest text. */
static enum ss_status find_difference(struct ss_comm *comm, const char *what,
                                      const struct ss_comm_fact *fact, size_t n, size_t longest)
{
    struct difference own, *all = NULL;
    char *text = calloc(1, longest);
    if (comm->rank == 0)
        all = calloc((size_t)comm->size, sizeof *all);
    if (!text || (comm->rank == 0 && !all)) {
        ss_fail_memory(what, longest + (size_t)comm->size * sizeof *all);
        ss_comm_abort(comm, SS_ERR_MEMORY);
    } else {
        if (comm->rank == 0)
            put_text(fact, n, text);
        enum ss_status status = ss_comm_bcast(comm, text, longest, 0, what);
        find(fact, n, text, &own);
        if (status == SS_OK)
            status = ss_comm_gather(comm, &own, sizeof own, all, what);
        if (status == SS_OK && comm->rank == 0)
            report(comm, fact, n, all);
    }
    free(text);
    free(all);
    /* A rank that ended now could abort rank 0 before its message is printed. */
    ss_comm_barrier(comm, what);
    return SS_ERR_MISMATCH;
}

enum ss_status ss_comm_check_facts(struct ss_comm *comm, const char *what,
                                   const struct ss_comm_fact *fact, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = hash_text(hash_text(hash, fact[i].name), fact[i].value);
    /* max(~hash) is ~min(hash), so one reduction returns both extremes. */
    uint64_t ends[3] = {hash, ~hash, text_bytes(fact, n)};
    struct ss_comm_request request = {
        .kind = SS_COMM_MAX_U64, .data = ends, .count = 3, .what = what};
    SS_TRY(ss_comm_run(comm, &request));
    if (ends[0] == ~ends[1])
        return SS_OK;
    return find_difference(comm, what, fact, n, ends[2]);
}

enum ss_status ss_comm_check_consistent(struct ss_comm *comm, const char *name, const char *value)
{
    const struct ss_comm_fact fact = {.name = name, .value = value};
    return ss_comm_check_facts(comm, name, &fact, 1);
}
