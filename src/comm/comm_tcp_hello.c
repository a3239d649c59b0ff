/* comm_tcp_hello.c: messages and proofs of the handshake (contract in comm_tcp_hello.h). */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_tcp_hello.h"
#include "core/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum ss_status ss_tcp_key(const struct ss_comm_env *env, unsigned char key[SS_SHA256_BYTES])
{
    const char *secret = getenv("STARSTEP_SECRET");
    struct ss_hmac mac;
    if (!secret || !secret[0])
        return ss_fail(SS_ERR_INVALID,
                       "ranks started without MPI need a secret, which excludes other "
                       "processes; before the ranks start: export "
                       "STARSTEP_SECRET=$(od -An -N16 -tx8 /dev/urandom | tr -d ' ') "
                       "(starstep launch generates its own)");
    if (strlen(secret) < SS_TCP_SECRET_MIN)
        return ss_fail(SS_ERR_INVALID,
                       "STARSTEP_SECRET has %zu characters; use at least %d "
                       "random characters",
                       strlen(secret), SS_TCP_SECRET_MIN);
    ss_hmac_begin(&mac, secret, strlen(secret));
    ss_hmac_add(&mac, "starstep job ", 13);
    ss_hmac_add(&mac, env->job, strlen(env->job));
    ss_hmac_end(&mac, key);
    return SS_OK;
}

static enum ss_status fill_nonce(unsigned char nonce[SS_SHA256_BYTES])
{
    ssize_t n;
    do
        n = getrandom(nonce, SS_SHA256_BYTES, 0);
    while (n < 0 && errno == EINTR);
    if (n != SS_SHA256_BYTES)
        return ss_fail(SS_ERR_LIBRARY, "no random numbers from the kernel: %s", strerror(errno));
    return SS_OK;
}

static void fill_version(char *version)
{
    strncpy(version, PACKAGE_VERSION, SS_TCP_NAME - 1);
}

enum ss_status ss_tcp_hello_fill(const struct ss_comm_env *env, struct ss_tcp_hello *hello)
{
    memset(hello, 0, sizeof *hello);
    memcpy(hello->magic, SS_TCP_MAGIC, sizeof hello->magic);
    hello->protocol = SS_TCP_PROTOCOL;
    hello->bytes = sizeof *hello;
    hello->rank = env->rank;
    hello->size = env->size;
    hello->node = env->node;
    hello->local_rank = env->local_rank;
    fill_version(hello->version);
    gethostname(hello->host, sizeof hello->host - 1);
    return fill_nonce(hello->nonce);
}

void ss_tcp_answer_fill(struct ss_tcp_answer *answer, enum ss_tcp_code code)
{
    memset(answer, 0, sizeof *answer);
    memcpy(answer->magic, SS_TCP_MAGIC, sizeof answer->magic);
    answer->protocol = SS_TCP_PROTOCOL;
    answer->code = code;
    fill_version(answer->version);
    gethostname(answer->host, sizeof answer->host - 1);
}

enum ss_status ss_tcp_challenge_fill(struct ss_tcp_answer *challenge)
{
    ss_tcp_answer_fill(challenge, SS_TCP_CHALLENGE);
    return fill_nonce(challenge->bytes);
}

void ss_tcp_rank_proof(const unsigned char *key, const struct ss_tcp_hello *hello,
                       const struct ss_tcp_answer *challenge, unsigned char proof[SS_SHA256_BYTES])
{
    struct ss_hmac mac;
    ss_hmac_begin(&mac, key, SS_SHA256_BYTES);
    ss_hmac_add(&mac, "starstep rank r ", 16);
    ss_hmac_add(&mac, hello, sizeof *hello);
    ss_hmac_add(&mac, challenge, sizeof *challenge);
    ss_hmac_end(&mac, proof);
}

void ss_tcp_root_proof(const unsigned char *key, const struct ss_tcp_hello *hello,
                       const struct ss_tcp_answer *challenge, const struct ss_tcp_answer *answer,
                       unsigned char proof[SS_SHA256_BYTES])
{
    struct ss_hmac mac;
    struct ss_tcp_answer unsigned_answer = *answer;
    memset(unsigned_answer.bytes, 0, sizeof unsigned_answer.bytes);
    ss_hmac_begin(&mac, key, SS_SHA256_BYTES);
    ss_hmac_add(&mac, "starstep rank 0 ", 16);
    ss_hmac_add(&mac, hello, sizeof *hello);
    ss_hmac_add(&mac, challenge, sizeof *challenge);
    ss_hmac_add(&mac, &unsigned_answer, sizeof unsigned_answer);
    ss_hmac_end(&mac, proof);
}
