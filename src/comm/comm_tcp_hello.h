/* Handshake by which two ranks prove to each other that they belong to the same run; only for
 * src/comm and its tests.
 *
 *     rank r                                   rank 0
 *     hello: rank, world size, version, nonce   ->
 *                        <-   answer SS_TCP_CHALLENGE: version, host, nonce
 *     proof: HMAC of hello and challenge        ->
 *                        <-   answer SS_TCP_ACCEPTED or SS_TCP_REFUSED with a reason; and a proof:
 *                             HMAC of hello, challenge and this answer
 *
 * Both nonces are fresh and enter both proofs, so recorded messages cannot be replayed; the two
 * proofs have different prefixes, so neither can be reflected. Rank 0 sends a peer no information
 * about its run before the peer's proof. The traffic after the handshake is neither encrypted nor
 * signed: the handshake rejects unauthorized clients, but does not protect against an attacker who
 * can modify packets in transit. The same holds for MPI and NCCL.
 *
 * The secret is STARSTEP_SECRET, in the environment of every rank. It cannot be derived from
 * anything else: every other user of the cluster can query or guess the values that Slurm or
 * torchrun give to the ranks (job and step ids, hosts, ports).
 *
 * All structs are sent as bytes; programs of another byte order read another protocol number. */
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
#define SS_TCP_MAGIC "STARSTEP" /* 8 bytes, without a terminator */

/* Magic, protocol and bytes keep their offsets in all future protocols. */
struct ss_tcp_hello {
    char magic[8];
    uint32_t protocol, bytes; /* bytes: size of this struct */
    int32_t rank, size, node, local_rank;
    char version[SS_TCP_NAME], host[SS_TCP_NAME];
    unsigned char nonce[SS_SHA256_BYTES];
};

enum ss_tcp_code {
    SS_TCP_CHALLENGE = 1,
    SS_TCP_ACCEPTED,
    SS_TCP_REFUSED,  /* with a proof: rank 0 rejects this rank; do not retry */
    SS_TCP_UNPROVED, /* without one: different protocol or secret, so perhaps another run */
};

struct ss_tcp_answer {
    char magic[8];
    uint32_t protocol, code;
    char version[SS_TCP_NAME], host[SS_TCP_NAME];
    unsigned char bytes[SS_SHA256_BYTES]; /* the challenge's nonce, else the proof */
    char reason[SS_TCP_REASON];
};

/* Derive the run's key from STARSTEP_SECRET and the job's name. Errors: SS_ERR_INVALID: the secret
 * is missing or too short. */
enum ss_status ss_tcp_key(const struct ss_comm_env *env, unsigned char key[SS_SHA256_BYTES]);

/* Fill in magic, protocol, version, this host's name and, in hello and challenge, a nonce. Errors:
 * SS_ERR_LIBRARY: no random bytes. */
enum ss_status ss_tcp_hello_fill(const struct ss_comm_env *env, struct ss_tcp_hello *hello);
enum ss_status ss_tcp_challenge_fill(struct ss_tcp_answer *challenge);
void ss_tcp_answer_fill(struct ss_tcp_answer *answer, enum ss_tcp_code code);

void ss_tcp_rank_proof(const unsigned char *key, const struct ss_tcp_hello *hello,
                       const struct ss_tcp_answer *challenge, unsigned char proof[SS_SHA256_BYTES]);
/* `answer` is complete except for `bytes`, which do not enter the proof. */
void ss_tcp_root_proof(const unsigned char *key, const struct ss_tcp_hello *hello,
                       const struct ss_tcp_answer *challenge, const struct ss_tcp_answer *answer,
                       unsigned char proof[SS_SHA256_BYTES]);

#endif
