/* tcp_handshake.c: rank 0's side of the handshake (contract in tcp_handshake.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/tcp_handshake.h"
#include "core/log.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REFUSALS_SHOWN = 32 }; /* number of refused connections reported */

/* Seconds for a handshake while there are no free slots. A rank sends its hello with its
 * connection, so it arrives with the connection at any distance; the proof takes a round trip. */
#define SHORT_HELLO_SECONDS 0.25
#define SHORT_PROOF_SECONDS 1.0

int ss_handshake_is_pending(const struct ss_slot *slot)
{
    return slot->state == SS_SLOT_HELLO || slot->state == SS_SLOT_PROOF;
}

void ss_handshake_close_slot(struct ss_handshake *handshake, struct ss_slot *slot)
{
    close(slot->fd);
    slot->state = SS_SLOT_FREE;
    handshake->nfree++;
    handshake->full = 0;
}

/* Log the first refusals only: repeated scans must not fill the disk. */
static void report(struct ss_handshake *handshake, const struct ss_slot *slot, const char *reason)
{
    if (handshake->refused < REFUSALS_SHOWN)
        ss_warn("refused a connection from %s: %s", slot->from, reason);
    else if (handshake->refused == REFUSALS_SHOWN)
        ss_warn("refused a connection from %s: %s; further ones are not reported", slot->from,
                reason);
    handshake->refused++;
}

static void refuse(struct ss_handshake *handshake, struct ss_slot *slot, const char *reason)
{
    report(handshake, slot, reason);
    ss_handshake_close_slot(handshake, slot);
}

/* Refuse with an answer; a few hundred bytes always fit into a fresh socket's buffer. */
static void answer_and_refuse(struct ss_handshake *handshake, struct ss_slot *slot,
                              enum ss_tcp_code code, const char *reason)
{
    struct ss_tcp_answer answer;
    struct iovec part = {&answer, sizeof answer};
    ss_tcp_answer_fill(&answer, code);
    snprintf(answer.reason, sizeof answer.reason, "%s", reason);
    if (code == SS_TCP_REFUSED)
        ss_tcp_root_proof(handshake->key, &slot->hello, &slot->challenge, &answer, answer.bytes);
    ss_tcp_send_some(slot->fd, &part, 1);
    refuse(handshake, slot, reason);
}

/* Check an authenticated peer's hello: 1 if it is acceptable, else 0 and the reason. */
static int acceptable(const struct ss_handshake *handshake, const struct ss_slot *slot,
                      char *reason, size_t capacity)
{
    const struct ss_tcp_hello *hello = &slot->hello;
    int size = handshake->env->size;
    if (strcmp(hello->version, slot->challenge.version) != 0)
        snprintf(reason, capacity,
                 "rank %d on %s is starstep %s, rank 0 on %s is %s; start the same program",
                 hello->rank, hello->host, hello->version, slot->challenge.host,
                 slot->challenge.version);
    else if (hello->size != size)
        snprintf(reason, capacity,
                 "rank %d on %s expects %d ranks, rank 0 expects %d; set the same WORLD_SIZE on "
                 "all ranks",
                 hello->rank, hello->host, hello->size, size);
    else if (hello->rank < 1 || hello->rank >= size)
        snprintf(reason, capacity,
                 "rank %d on %s is invalid in a world of %d ranks with rank 0 running; give each "
                 "process its own RANK from 0 to %d",
                 hello->rank, hello->host, size, size - 1);
    else if (handshake->of_rank[hello->rank])
        snprintf(reason, capacity,
                 "a second rank %d connected, from %s; the first is on %s; give each process its "
                 "own RANK",
                 hello->rank, hello->host, handshake->of_rank[hello->rank]->hello.host);
    else if (hello->node < 0 || hello->node >= size)
        snprintf(reason, capacity, "rank %d on %s has node number %d of %d ranks", hello->rank,
                 hello->host, hello->node, size);
    else
        return 1;
    return 0;
}

static void admit(struct ss_handshake *handshake, struct ss_slot *slot)
{
    char reason[SS_TCP_REASON];
    struct ss_tcp_answer answer;
    struct iovec part = {&answer, sizeof answer};
    slot->hello.version[SS_TCP_NAME - 1] = slot->hello.host[SS_TCP_NAME - 1] = '\0';
    if (!acceptable(handshake, slot, reason, sizeof reason)) {
        answer_and_refuse(handshake, slot, SS_TCP_REFUSED, reason);
        return;
    }
    ss_tcp_answer_fill(&answer, SS_TCP_ACCEPTED);
    ss_tcp_root_proof(handshake->key, &slot->hello, &slot->challenge, &answer, answer.bytes);
    if (ss_tcp_send_some(slot->fd, &part, 1) != (ssize_t)sizeof answer) {
        refuse(handshake, slot, "it closed the connection during the handshake");
        return;
    }
    slot->state = SS_SLOT_IN;
    handshake->of_rank[slot->hello.rank] = slot;
    handshake->missing--;
}

static enum ss_status hello_came(struct ss_handshake *handshake, struct ss_slot *slot)
{
    struct iovec part = {&slot->challenge, sizeof slot->challenge};
    SS_TRY(ss_tcp_challenge_fill(&slot->challenge));
    slot->state = SS_SLOT_PROOF;
    slot->have = 0;
    if (ss_tcp_send_some(slot->fd, &part, 1) != (ssize_t)sizeof slot->challenge)
        refuse(handshake, slot, "it closed the connection during the handshake");
    return SS_OK;
}

static void proof_came(struct ss_handshake *handshake, struct ss_slot *slot)
{
    unsigned char proof[SS_SHA256_BYTES];
    /* The proof covers the bytes as received; strings are terminated only after it. */
    ss_tcp_rank_proof(handshake->key, &slot->hello, &slot->challenge, proof);
    if (ss_digest_equal(proof, slot->proof))
        admit(handshake, slot);
    else
        answer_and_refuse(handshake, slot, SS_TCP_UNPROVED,
                          "its secret differs; set the same STARSTEP_SECRET on all ranks of "
                          "a run");
}

/* Check the received part of a hello: 0 if it is invalid; the slot is then free. */
static int hello_so_far(struct ss_handshake *handshake, struct ss_slot *slot)
{
    const struct ss_tcp_hello *hello = &slot->hello;
    size_t n = slot->have < sizeof hello->magic ? slot->have : sizeof hello->magic;
    char reason[SS_TCP_REASON];
    if (memcmp(hello->magic, SS_TCP_MAGIC, n) != 0) {
        refuse(handshake, slot, "it is not a rank: it sent no starstep hello");
        return 0;
    }
    if (slot->have < offsetof(struct ss_tcp_hello, rank) ||
        (hello->protocol == SS_TCP_PROTOCOL && hello->bytes == sizeof *hello))
        return 1;
    snprintf(reason, sizeof reason,
             "its protocol is %u, rank 0's is %d; start the same program on all ranks, with "
             "processors of the same byte order",
             hello->protocol, SS_TCP_PROTOCOL);
    answer_and_refuse(handshake, slot, SS_TCP_UNPROVED, reason);
    return 0;
}

/* An accepted rank became readable. It sends nothing before rank 0's start frame, so it has
 * ended. */
static enum ss_status rank_stirred(const struct ss_slot *slot)
{
    return ss_fail(SS_ERR_COMM,
                   "start-up: rank %d (%s) exited before all ranks had joined; see its own message "
                   "for the reason; ending all ranks",
                   slot->hello.rank, slot->hello.host);
}

enum ss_status ss_handshake_readable(struct ss_handshake *handshake, struct ss_slot *slot)
{
    char *to = slot->state == SS_SLOT_HELLO ? (char *)&slot->hello : (char *)slot->proof;
    size_t whole = slot->state == SS_SLOT_HELLO ? sizeof slot->hello : sizeof slot->proof;
    if (slot->state == SS_SLOT_IN)
        return rank_stirred(slot);
    ssize_t n = ss_tcp_receive_some(slot->fd, to + slot->have, whole - slot->have);
    if (n < 0) {
        refuse(handshake, slot,
               slot->state == SS_SLOT_HELLO && slot->have == 0
                   ? "it closed the connection without sending data"
                   : "it closed the connection during the handshake");
        return SS_OK;
    }
    slot->have += (size_t)n;
    if (slot->state == SS_SLOT_HELLO && !hello_so_far(handshake, slot))
        return SS_OK;
    if (slot->have < whole)
        return SS_OK;
    if (slot->state == SS_SLOT_HELLO)
        return hello_came(handshake, slot);
    proof_came(handshake, slot);
    return SS_OK;
}

double ss_handshake_refuse_slow(struct ss_handshake *handshake, double now)
{
    double next = handshake->deadline;
    char reason[SS_TCP_REASON];
    int full = handshake->full;
    for (int i = 0; i < handshake->nslots; i++) {
        struct ss_slot *slot = &handshake->slots[i];
        if (!ss_handshake_is_pending(slot))
            continue;
        double patience = slot->state == SS_SLOT_HELLO ? SHORT_HELLO_SECONDS : SHORT_PROOF_SECONDS;
        if (!full || patience > handshake->patience)
            patience = handshake->patience;
        if (now < slot->since + patience) {
            next = fmin(next, slot->since + patience);
            continue;
        }
        snprintf(reason, sizeof reason, "it sent %zu of %zu bytes of the handshake in %.1f s%s",
                 slot->have + (slot->state == SS_SLOT_PROOF ? sizeof slot->hello : 0),
                 sizeof slot->hello + sizeof slot->proof, now - slot->since,
                 full ? ", while others waited" : "");
        refuse(handshake, slot, reason);
    }
    return next;
}
