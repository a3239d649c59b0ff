/* comm_tcp_stranger.c: connections that rank 0 must refuse, for tests/comm/test_comm_tcp.sh.
 *
 *     comm_tcp_stranger MODE PORT [COUNT]
 *
 *     silent    sends nothing and waits
 *     half      sends half a hello and waits
 *     gone      sends half a hello and closes
 *     dribble   sends single bytes with delays
 *     garbage   uses another protocol
 *     protocol  uses another version of the protocol
 *     version, outside, node
 *               has the right secret, but a wrong version, rank or node in its hello
 *     far       like node, with the latency of a satellite link
 *     replay    sends a proof of another challenge
 *     impostor  listens on PORT and answers as rank 0 without the secret
 *     root      listens on PORT and answers with the secret, then sends an invalid message
 *     mute      like root, but then closes without a message
 *
 * Exit code 0 if the connection was refused as expected.
 *
 * crowd, bytes, greeting: COUNT simultaneous connections that send nothing, one byte, or a complete
 * hello and nothing after it. Each refused connection reconnects immediately until the port is
 * closed. Prints "here" when all have connected for the first time. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_tcp.h"
#include "comm/comm_tcp_hello.h"
#include "comm/comm_tcp_socket.h"
#include "core/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FAR_US = 400000 }; /* round trip over a satellite link */

static int fail(const char *what)
{
    fprintf(stderr, "comm_tcp_stranger: %s (%s)\n", what, strerror(errno));
    return EXIT_FAILURE;
}

/* Send `bytes` bytes of the hello with a delay after each, and wait for rank 0 to close. */
static int slow(int fd, const struct ss_tcp_hello *hello, size_t bytes, unsigned pause_us)
{
    double end = ss_seconds() + 20;
    struct ss_tcp_answer answer;
    for (size_t i = 0; i < bytes; i++) {
        if (ss_tcp_send_all(fd, (const char *)hello + i, 1, end) != 0)
            return EXIT_SUCCESS; /* closed */
        usleep(pause_us);
    }
    if (ss_tcp_receive_all(fd, &answer, sizeof answer, end) == 0)
        return fail("unexpected answer");
    return errno == ETIMEDOUT ? fail("not refused") : EXIT_SUCCESS;
}

static int expect(int fd, enum ss_tcp_code code, struct ss_tcp_answer *answer)
{
    if (ss_tcp_receive_all(fd, answer, sizeof *answer, ss_seconds() + 20) != 0)
        return fail("no answer");
    return answer->code == code ? EXIT_SUCCESS : fail("answer has another code");
}

/* A complete handshake with the right secret and the one error that `mode` selects. */
static int shake_hands(int fd, const char *mode, const struct ss_comm_env *env,
                       struct ss_tcp_hello *hello)
{
    unsigned char key[SS_SHA256_BYTES], proof[SS_SHA256_BYTES];
    struct ss_tcp_answer challenge, answer;
    int replay = strcmp(mode, "replay") == 0, far = strcmp(mode, "far") == 0;
    if (strcmp(mode, "version") == 0)
        strcpy(hello->version, "0.0.0");
    if (strcmp(mode, "outside") == 0)
        hello->rank = env->size;
    if (strcmp(mode, "node") == 0 || far) {
        hello->rank = 2;
        hello->node = -1;
    }
    if (far)
        usleep(FAR_US / 4); /* delay of the hello; the connection needs none */
    if (ss_tcp_key(env, key) != SS_OK ||
        ss_tcp_send_all(fd, hello, sizeof *hello, ss_seconds() + 20) != 0)
        return fail("cannot send");
    if (expect(fd, SS_TCP_CHALLENGE, &challenge) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    struct ss_tcp_answer proved = challenge;
    proved.bytes[0] ^= (unsigned char)replay;
    if (far)
        usleep(FAR_US);
    ss_tcp_rank_proof(key, hello, &proved, proof);
    if (ss_tcp_send_all(fd, proof, sizeof proof, ss_seconds() + 20) != 0)
        return fail("cannot send the proof");
    if (expect(fd, replay ? SS_TCP_UNPROVED : SS_TCP_REFUSED, &answer) != EXIT_SUCCESS)
        return EXIT_FAILURE;
    ss_tcp_root_proof(key, hello, &challenge, &answer, proof);
    if (ss_digest_equal(proof, answer.bytes) == replay)
        return fail("wrong proof from rank 0");
    return EXIT_SUCCESS;
}

/* Act as rank 0. Without the secret the rank must reject the answer; with it, the invalid or
 * missing message that follows must end the rank. */
static int impostor(const char *mode, int port)
{
    int listener = ss_tcp_listen("127.0.0.1", port), fd = -1;
    struct ss_comm_env env;
    struct ss_tcp_hello hello;
    struct ss_tcp_answer challenge, answer;
    unsigned char proof[SS_SHA256_BYTES], key[SS_SHA256_BYTES];
    double end = ss_seconds() + 20;
    if (listener < 0)
        return fail("cannot listen");
    struct pollfd one = {.fd = listener, .events = POLLIN};
    if (poll(&one, 1, 20000) != 1 || (fd = accept(listener, NULL, NULL)) < 0)
        return fail("no rank connected");
    if (ss_tcp_receive_all(fd, &hello, sizeof hello, end) != 0 ||
        ss_tcp_challenge_fill(&challenge) != SS_OK ||
        ss_tcp_send_all(fd, &challenge, sizeof challenge, end) != 0 ||
        ss_tcp_receive_all(fd, proof, sizeof proof, end) != 0)
        return fail("no proof");
    ss_tcp_answer_fill(&answer, SS_TCP_ACCEPTED);
    if (strcmp(mode, "impostor") == 0) {
        /* The rank's own proof, sent back, is not a valid proof of rank 0. */
        memcpy(answer.bytes, proof, sizeof proof);
    } else {
        if (ss_comm_env_read(&env) != SS_OK || ss_tcp_key(&env, key) != SS_OK)
            return fail("no environment");
        ss_tcp_root_proof(key, &hello, &challenge, &answer, answer.bytes);
    }
    if (ss_tcp_send_all(fd, &answer, sizeof answer, end) != 0)
        return fail("cannot answer");
    const struct ss_tcp_header header = {.type = SS_TCP_BYE};
    if (strcmp(mode, "root") == 0 && ss_tcp_send_all(fd, &header, sizeof header, end) != 0)
        return fail("cannot send a message");
    if (strcmp(mode, "mute") == 0)
        return EXIT_SUCCESS;
    if (ss_tcp_receive_all(fd, proof, 1, end) == 0 || errno == ETIMEDOUT)
        return fail("the rank did not close the connection");
    return EXIT_SUCCESS;
}

static int other_protocol(int fd, struct ss_tcp_hello *hello)
{
    struct ss_tcp_answer answer;
    hello->protocol++;
    if (ss_tcp_send_all(fd, hello, sizeof *hello, ss_seconds() + 20) != 0)
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
        return fail("unexpected answer");
    return errno == ETIMEDOUT ? fail("not refused") : EXIT_SUCCESS;
}

struct crowd {
    struct sockaddr_in to;
    struct ss_tcp_hello hello;
    size_t says; /* bytes of the hello to send */
    int count, here, came;
    struct pollfd *fds;
    char *connected;
};

/* Open connection i. Returns 0 if the connection fails immediately. */
static int come(struct crowd *c, int i)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    c->fds[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
    c->connected[i] = 0;
    c->came++;
    return fd >= 0 &&
           (connect(fd, (struct sockaddr *)&c->to, sizeof c->to) == 0 || errno == EINPROGRESS);
}

/* Handle an event of connection i (connected, data, closed). Returns 0 if the port is closed. */
static int stir(struct crowd *c, int i)
{
    char dropped[1024];
    int error = 0;
    socklen_t length = sizeof error;
    if (!c->connected[i]) {
        getsockopt(c->fds[i].fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error == ECONNREFUSED)
            return 0;
        c->connected[i] = error == 0;
        c->here += error == 0 && c->here < c->count;
        c->fds[i].events = POLLIN;
        if (c->here == c->count && puts("here") >= 0 && fflush(stdout) == 0)
            c->here++;
        if (error == 0 && c->says)
            send(c->fds[i].fd, &c->hello, c->says, MSG_NOSIGNAL);
        if (error == 0)
            return 1;
    }
    ssize_t n = recv(c->fds[i].fd, dropped, sizeof dropped, 0);
    if (n > 0 || (n < 0 && errno == EAGAIN))
        return 1;
    close(c->fds[i].fd);
    return come(c, i);
}

static int crowd(struct crowd *c)
{
    struct rlimit files;
    double end = ss_seconds() + 60;
    c->fds = calloc((size_t)c->count, sizeof *c->fds);
    c->connected = calloc((size_t)c->count, 1);
    if (!c->fds || !c->connected || getrlimit(RLIMIT_NOFILE, &files) != 0)
        return fail("cannot prepare the connections");
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < c->count; i++)
        if (!come(c, i))
            return fail("cannot connect");
    while (ss_seconds() < end) {
        poll(c->fds, (nfds_t)c->count, 1000);
        for (int i = 0; i < c->count; i++)
            if (c->fds[i].revents && !stir(c, i)) {
                printf("%d connections\n", c->came);
                return EXIT_SUCCESS;
            }
    }
    return fail("the port is still open after 60 s");
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4)
        return 2;
    const char *mode = argv[1];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    struct ss_comm_env env;
    struct ss_tcp_hello hello;
    int fd = -1;
    if (strcmp(mode, "impostor") == 0 || strcmp(mode, "root") == 0 || strcmp(mode, "mute") == 0)
        return impostor(mode, atoi(argv[2]));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (ss_comm_env_read(&env) != SS_OK || ss_tcp_hello_fill(&env, &hello) != SS_OK)
        return fail("no environment");
    struct crowd c = {.to = to, .hello = hello, .count = argc > 3 ? atoi(argv[3]) : 1};
    if (strcmp(mode, "bytes") == 0)
        c.says = 1;
    if (strcmp(mode, "greeting") == 0)
        c.says = sizeof hello;
    if (strcmp(mode, "crowd") == 0 || c.says)
        return crowd(&c);
    for (int tries = 0; fd < 0 && tries < 500; tries++) {
        fd = ss_tcp_connect((struct sockaddr *)&to, sizeof to, ss_seconds() + 5);
        if (fd < 0)
            usleep(20000);
    }
    if (fd < 0)
        return fail("cannot connect");
    if (strcmp(mode, "silent") == 0)
        return slow(fd, &hello, 0, 0);
    if (strcmp(mode, "half") == 0)
        return slow(fd, &hello, sizeof hello / 2, 0);
    if (strcmp(mode, "gone") == 0)
        return ss_tcp_send_all(fd, &hello, sizeof hello / 2, ss_seconds() + 5) ? 1 : 0;
    if (strcmp(mode, "dribble") == 0)
        return slow(fd, &hello, sizeof hello, 50000);
    if (strcmp(mode, "garbage") == 0)
        return garbage(fd);
    if (strcmp(mode, "protocol") == 0)
        return other_protocol(fd, &hello);
    return shake_hands(fd, mode, &env, &hello);
}
