/* comm_tcp_stranger.c: connections that rank 0 must refuse, for tests/test_comm_tcp.sh.
 *
 *     comm_tcp_stranger MODE PORT
 *
 * silent, half: says nothing, or half a hello, and waits; gone: half a hello, then closes; dribble:
 * a byte now and then; garbage: another protocol altogether; protocol: another number of ours; and
 * with the right secret: version, outside, node; replay: a proof of another challenge; impostor:
 * listens at PORT, and answers a rank as rank 0 without the secret. Exit code 0 when it was refused
 * in the way that is expected. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_tcp_hello.h"
#include "comm/comm_tcp_socket.h"
#include "core/clock.h"

static int fail(const char *what)
{
    fprintf(stderr, "comm_tcp_stranger: %s (%s)\n", what, strerror(errno));
    return EXIT_FAILURE;
}

/* Send `bytes` of the hello, every one after a pause, and wait for rank 0 to close. */
static int slow(int fd, const struct ss_tcp_hello *hello, size_t bytes, unsigned pause_us)
{
    double end = ss_seconds() + 20;
    struct ss_tcp_answer answer;
    for (size_t i = 0; i < bytes; i++) {
        if (ss_tcp_send_all(fd, (const char *)hello + i, 1, end) != 0)
            return EXIT_SUCCESS; /* closed */
        usleep(pause_us);
    }
    if (ss_tcp_receive_all(fd, &answer, sizeof(answer), end) == 0)
        return fail("it was answered");
    return errno == ETIMEDOUT ? fail("it was not refused") : EXIT_SUCCESS;
}

static int expect(int fd, enum ss_tcp_code code, struct ss_tcp_answer *answer)
{
    if (ss_tcp_receive_all(fd, answer, sizeof(*answer), ss_seconds() + 20) != 0)
        return fail("no answer");
    return answer->code == code ? EXIT_SUCCESS : fail("another answer");
}

/* A whole handshake with the right secret, but for what the mode spoils. */
static int shake_hands(int fd, const char *mode, const struct ss_comm_env *env,
                       struct ss_tcp_hello *hello)
{
    unsigned char key[SS_SHA256_BYTES], proof[SS_SHA256_BYTES];
    struct ss_tcp_answer challenge, answer;
    int replay = strcmp(mode, "replay") == 0;
    if (strcmp(mode, "version") == 0)
        strcpy(hello->version, "0.0.0");
    if (strcmp(mode, "outside") == 0)
        hello->rank = env->size;
    if (strcmp(mode, "node") == 0) {
        hello->rank = 2;
        hello->node = -1;
    }
    if (ss_tcp_key(env, key) != SS_OK ||
        ss_tcp_send_all(fd, hello, sizeof(*hello), ss_seconds() + 20) != 0)
        return fail("cannot send");
    if (expect(fd, SS_TCP_CHALLENGE, &challenge) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    struct ss_tcp_answer proved = challenge;
    proved.bytes[0] ^= (unsigned char)replay;
    ss_tcp_rank_proof(key, hello, &proved, proof);
    if (ss_tcp_send_all(fd, proof, sizeof(proof), ss_seconds() + 20) != 0)
        return fail("cannot send the proof");
    if (expect(fd, replay ? SS_TCP_UNPROVED : SS_TCP_REFUSED, &answer) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    ss_tcp_root_proof(key, hello, &challenge, &answer, proof);
    if (ss_digest_equal(proof, answer.bytes) == replay)
        return fail("a wrong proof of rank 0");
    return EXIT_SUCCESS;
}

/* Rank 0's part, without the secret: the rank must not believe it. */
static int impostor(int port)
{
    int listener = ss_tcp_listen("127.0.0.1", port), fd = -1;
    struct ss_tcp_hello hello;
    struct ss_tcp_answer answer;
    unsigned char proof[SS_SHA256_BYTES];
    double end = ss_seconds() + 20;
    if (listener < 0)
        return fail("cannot listen");
    struct pollfd one = {.fd = listener, .events = POLLIN};
    if (poll(&one, 1, 20000) != 1 || (fd = accept(listener, NULL, NULL)) < 0)
        return fail("nobody came");
    if (ss_tcp_receive_all(fd, &hello, sizeof(hello), end) != 0 ||
        ss_tcp_challenge_fill(&answer) != SS_OK ||
        ss_tcp_send_all(fd, &answer, sizeof(answer), end) != 0 ||
        ss_tcp_receive_all(fd, proof, sizeof(proof), end) != 0)
        return fail("no proof");
    /* The rank's own proof, sent back, is none. */
    ss_tcp_answer_fill(&answer, SS_TCP_ACCEPTED);
    memcpy(answer.bytes, proof, sizeof(proof));
    if (ss_tcp_send_all(fd, &answer, sizeof(answer), end) != 0)
        return fail("cannot answer");
    if (ss_tcp_receive_all(fd, proof, 1, end) == 0 || errno == ETIMEDOUT)
        return fail("the rank stayed");
    return EXIT_SUCCESS;
}

static int other_protocol(int fd, struct ss_tcp_hello *hello)
{
    struct ss_tcp_answer answer;
    hello->protocol++;
    if (ss_tcp_send_all(fd, hello, sizeof(*hello), ss_seconds() + 20) != 0)
        return fail("cannot send");
    return expect(fd, SS_TCP_UNPROVED, &answer);
}

static int garbage(int fd)
{
    const char *text = "GET / HTTP/1.0\r\n\r\n";
    char byte;
    if (ss_tcp_send_all(fd, text, strlen(text), ss_seconds() + 20) != 0)
        return fail("cannot send");
    if (ss_tcp_receive_all(fd, &byte, 1, ss_seconds() + 20) == 0)
        return fail("it was answered");
    return errno == ETIMEDOUT ? fail("it was not refused") : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *mode = argv[1];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    struct ss_comm_env env;
    struct ss_tcp_hello hello;
    int fd = -1;
    if (strcmp(mode, "impostor") == 0)
        return impostor(atoi(argv[2]));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (ss_comm_env_read(&env) != SS_OK || ss_tcp_hello_fill(&env, &hello) != SS_OK)
        return fail("no environment");
    for (int tries = 0; fd < 0 && tries < 500; tries++) {
        fd = ss_tcp_connect((struct sockaddr *)&to, sizeof(to), ss_seconds() + 5);
        if (fd < 0)
            usleep(20000);
    }
    if (fd < 0)
        return fail("cannot connect");
    if (strcmp(mode, "silent") == 0)
        return slow(fd, &hello, 0, 0);
    if (strcmp(mode, "half") == 0)
        return slow(fd, &hello, sizeof(hello) / 2, 0);
    if (strcmp(mode, "gone") == 0)
        return ss_tcp_send_all(fd, &hello, sizeof(hello) / 2, ss_seconds() + 5) ? 1 : 0;
    if (strcmp(mode, "dribble") == 0)
        return slow(fd, &hello, sizeof(hello), 50000);
    if (strcmp(mode, "garbage") == 0)
        return garbage(fd);
    if (strcmp(mode, "protocol") == 0)
        return other_protocol(fd, &hello);
    return shake_hands(fd, mode, &env, &hello);
}
