/* How two ranks prove to each other that they belong to the same run; only for src/comm/comm_tcp*.c
 * and its tests.
 *
 *     rank r                                   rank 0
 *     hello: rank, world size, version, nonce   ->
 *                        <-   answer SS_TCP_CHALLENGE: version, host, nonce
 *     proof: HMAC of hello and challenge        ->
 *                        <-   answer SS_TCP_ACCEPTED or SS_TCP_REFUSED with a reason; and a proof:
 *                             HMAC of hello, challenge and this answer
 *
 * Both nonces are fresh and in both proofs, so nothing recorded earlier is worth anything, and the
 * two proofs have different prefixes, so neither can be sent back. Rank 0 tells a peer nothing
 * about its run before the peer's proof. What follows is neither encrypted nor signed: this keeps
 * strangers out who can connect; who can change packets on their way is not kept out, as with MPI
 * and NCCL.
 *
 * The secret is STARSTEP_SECRET, in the environment of every rank. There is nothing to derive it
 * from: what Slurm or torchrun gives to the ranks (numbers of job and step, hosts, ports) every
 * other user of the cluster can ask for or guess.
 *
 * All structs are sent as bytes; programs of another byte order see another protocol number. */
#ifndef SS_COMM_COMM_TCP_HELLO_H
#define SS_COMM_COMM_TCP_HELLO_H

#include "comm/comm_env.h"
#include "core/sha256.h"

#include <stdint.h>

enum {
    SS_TCP_PROTOCOL = 1,
    SS_TCP_NAME = 64,
    SS_TCP_REASON = 512,
    SS_TCP_SECRET_MIN = 16 /* characters of STARSTEP_SECRET */
};
#define SS_TCP_MAGIC "STARSTEP" /* 8 bytes, without an end */

/* Magic, protocol and bytes stay where they are in all protocols to come. */
struct ss_tcp_hello {
    char magic[8];
    uint32_t protocol, bytes; /* bytes: of this struct */
    int32_t rank, size, node, local_rank;
    char version[SS_TCP_NAME], host[SS_TCP_NAME];
    unsigned char nonce[SS_SHA256_BYTES];
};

enum ss_tcp_code {
    SS_TCP_CHALLENGE = 1,
    SS_TCP_ACCEPTED,
    SS_TCP_REFUSED,  /* with a proof: rank 0 does not want this rank; trying again is of no use */
    SS_TCP_UNPROVED, /* without one: another protocol or another secret, so perhaps another run */
};

struct ss_tcp_answer {
    char magic[8];
    uint32_t protocol, code;
    char version[SS_TCP_NAME], host[SS_TCP_NAME];
    unsigned char bytes[SS_SHA256_BYTES]; /* the challenge's nonce, else the proof */
    char reason[SS_TCP_REASON];
};

/* The run's key from STARSTEP_SECRET and the job's name. Errors: SS_ERR_INVALID: no secret, or one
 * that is too short. */
enum ss_status ss_tcp_key(const struct ss_comm_env *env, unsigned char key[SS_SHA256_BYTES]);

/* Fill in magic, protocol, version, this host's name and, in hello and challenge, a nonce. Errors:
 * SS_ERR_LIBRARY: no random numbers. */
enum ss_status ss_tcp_hello_fill(const struct ss_comm_env *env, struct ss_tcp_hello *hello);
enum ss_status ss_tcp_challenge_fill(struct ss_tcp_answer *challenge);
void ss_tcp_answer_fill(struct ss_tcp_answer *answer, enum ss_tcp_code code);

void ss_tcp_rank_proof(const unsigned char *key, const struct ss_tcp_hello *hello,
                       const struct ss_tcp_answer *challenge, unsigned char proof[SS_SHA256_BYTES]);
/* `answer` is complete but for its bytes, which do not count. */
void ss_tcp_root_proof(const unsigned char *key, const struct ss_tcp_hello *hello,
                       const struct ss_tcp_answer *challenge, const struct ss_tcp_answer *answer,
                       unsigned char proof[SS_SHA256_BYTES]);

#endif
