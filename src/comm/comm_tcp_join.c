/* comm_tcp_join.c: start-up of ranks other than 0: connect to rank 0, authenticate, and wait until
 * all ranks have joined.
 *
 * Rank 0 may start later, and may listen on any of several ports, with another run on the others.
 * So all ports are tried in turn until this run's rank 0 answers on one. With a single port a wrong
 * answer ends the start-up immediately. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/comm_tcp.h"
#include "comm/comm_tcp_socket.h"
#include "core/clock.h"
#include "core/log.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_SECONDS 2.0 /* for one address and port */
#define ANSWER_SECONDS 5.0  /* for the challenge, if rank 0 may be elsewhere */
#define AVOID_SECONDS 2.0   /* skip a port of another server for this long */
#define GRACE_SECONDS 3.0   /* rank 0 times out first, as only it can name the missing ranks */

enum result {
    JOINED,
    NOT_YET, /* no listener, or the connection failed */
    NOT_OURS,
    REFUSED /* reported */
};

struct seeker {
    struct ss_tcp *tcp;
    const struct ss_comm_env *env;
    const unsigned char *key;
    double deadline;
    double not_before[SS_ENV_PORTS];
    struct addrinfo *address; /* rank 0's host; NULL: not resolved yet */
    int by_fallback;
    double answer_s; /* seconds to wait for the challenge */
    char root_host[SS_TCP_NAME];
    char where[SS_TCP_ADDRESS]; /* the last address tried */
    char why[SS_TCP_ADDRESS + SS_TCP_REASON + 8];
};

static enum result not_yet(struct seeker *s, const char *doing)
{
    /* Cut short by the deadline: keep the more informative error of the previous attempt. */
    if (errno == ETIMEDOUT && s->why[0] && ss_seconds() >= s->deadline)
        return NOT_YET;
    snprintf(s->why, sizeof s->why, "%s: %s: %s", s->where, doing, strerror(errno));
    return NOT_YET;
}

static enum result not_ours(struct seeker *s, const char *reason)
{
    snprintf(s->why, sizeof s->why, "%s: %s", s->where, reason);
    return NOT_OURS;
}

/* Check that an answer is well-formed and its text printable; the sender is not trusted. */
static int is_answer(struct ss_tcp_answer *answer)
{
    if (memcmp(answer->magic, SS_TCP_MAGIC, sizeof answer->magic) != 0)
        return 0;
    if (!memchr(answer->reason, '\0', sizeof answer->reason) ||
        !memchr(answer->host, '\0', sizeof answer->host))
        return 0;
    for (const char *c = answer->reason; *c; c++)
        if (!isprint((unsigned char)*c))
            return 0;
    return 1;
}

/* Send this rank's proof and check rank 0's answer. */
static enum result prove(struct seeker *s, int fd, const struct ss_tcp_hello *hello,
                         const struct ss_tcp_answer *challenge)
{
    struct ss_tcp_answer answer;
    unsigned char proof[SS_SHA256_BYTES];
    ss_tcp_rank_proof(s->key, hello, challenge, proof);
    if (ss_tcp_send_all(fd, proof, sizeof proof, s->deadline) != 0 ||
        ss_tcp_receive_all(fd, &answer, sizeof answer, s->deadline) != 0)
        return not_yet(s, "handshake");
    if (!is_answer(&answer))
        return not_ours(s, "the server there is not starstep");
    if (answer.code == SS_TCP_UNPROVED)
        return not_ours(s, answer.reason);
    ss_tcp_root_proof(s->key, hello, challenge, &answer, proof);
    if (!ss_digest_equal(proof, answer.bytes))
        return not_ours(s, "the server there has a different secret");
    if (answer.code != SS_TCP_ACCEPTED) {
        ss_fail(SS_ERR_COMM, "start-up: rank 0 (%s) refused this rank: %s", answer.host,
                answer.reason);
        return REFUSED;
    }
    memcpy(s->root_host, answer.host, sizeof s->root_host);
    return JOINED;
}

static enum result shake_hands(struct seeker *s, int fd)
{
    struct ss_tcp_hello hello;
    struct ss_tcp_answer challenge;
    double deadline = fmin(s->deadline, ss_seconds() + s->answer_s);
    if (ss_tcp_hello_fill(s->env, &hello) != SS_OK)
        return REFUSED;
    if (ss_tcp_send_all(fd, &hello, sizeof hello, deadline) != 0 ||
        ss_tcp_receive_all(fd, &challenge, sizeof challenge, deadline) != 0)
        return not_yet(s, "handshake");
    if (!is_answer(&challenge))
        return not_ours(s, "the server there is not starstep");
    if (challenge.code == SS_TCP_UNPROVED)
        return not_ours(s, challenge.reason);
    if (challenge.code != SS_TCP_CHALLENGE || challenge.protocol != SS_TCP_PROTOCOL)
        return not_ours(s, "the server there uses a different protocol");
    return prove(s, fd, &hello, &challenge);
}

static enum result try_address(struct seeker *s, const struct addrinfo *address, int *fd_out)
{
    double deadline = fmin(s->deadline, ss_seconds() + CONNECT_SECONDS);
    ss_tcp_address_text(address->ai_addr, address->ai_addrlen, s->where);
    int fd = ss_tcp_connect(address->ai_addr, address->ai_addrlen, deadline);
    if (fd < 0)
        return not_yet(s, "connect");
    enum result result = shake_hands(s, fd);
    if (result == JOINED)
        *fd_out = fd;
    else
        close(fd);
    return result;
}

/* Resolve rank 0's host, once for all ports: a name server that does not respond takes seconds. If
 * the name could not be resolved and there is a fallback, the name is not resolved again. */
static void look_up(struct seeker *s)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (s->address && s->by_fallback)
        return;
    if (s->address)
        freeaddrinfo(s->address);
    s->address = NULL;
    int rc = getaddrinfo(s->env->host, NULL, &hints, &s->address);
    if (rc != 0 && s->env->fallback[0]) {
        rc = getaddrinfo(s->env->fallback, NULL, &hints, &s->address);
        s->by_fallback = rc == 0;
    }
    if (rc != 0) {
        s->address = NULL;
        snprintf(s->why, sizeof s->why, "its address is not known: %s",
                 rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    }
}

static void set_port(struct sockaddr *address, int port)
{
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
}

/* All addresses of rank 0's host at one port. */
static enum result try_port(struct seeker *s, int port, int *fd)
{
    enum result result = NOT_YET;
    /* With a single address rank 0 cannot be elsewhere: reconnecting would only lose this rank's
     * place in rank 0's queue of handshakes. */
    int only_one = s->env->nports == 1 && s->address && !s->address->ai_next;
    s->answer_s = only_one ? s->tcp->comm->timeout_s : ANSWER_SECONDS;
    for (const struct addrinfo *a = s->address; a && result == NOT_YET; a = a->ai_next) {
        if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
            continue;
        set_port(a->ai_addr, port);
        result = try_address(s, a, fd);
    }
    return result;
}

static enum result try_ports(struct seeker *s, int *fd)
{
    const struct ss_comm_env *env = s->env;
    for (int i = 0; i < env->nports; i++) {
        if (ss_seconds() < s->not_before[i])
            continue;
        enum result result = try_port(s, env->ports[i], fd);
        if (result == JOINED || result == REFUSED)
            return result;
        if (result == NOT_OURS && env->nports == 1) {
            ss_fail(SS_ERR_COMM, "start-up: rank 0 was expected at %s", s->why);
            return REFUSED;
        }
        /* Another run's start-up ends soon; this run's rank 0 may then use the port. */
        if (result == NOT_OURS)
            s->not_before[i] = ss_seconds() + AVOID_SECONDS;
    }
    return NOT_YET;
}

static enum ss_status report_unreachable(const struct seeker *s)
{
    char ports[64];
    ss_comm_env_ports(s->env, ports);
    return ss_fail(SS_ERR_TIMEOUT,
                   "start-up: waited %.1f s for rank 0 at %s, %s; last attempt: %s; check that "
                   "rank 0 is started and that this node can reach it",
                   s->tcp->comm->timeout_s, s->env->host, ports, s->why);
}

static enum ss_status find_root(struct seeker *s, int *fd)
{
    /* Vary the sleep by rank, so that ranks that start together do not retry together. */
    double pause_s = 0.02 + 0.002 * (s->env->rank % 32);
    for (;;) {
        look_up(s);
        enum result result = try_ports(s, fd);
        double left = s->deadline - ss_seconds();
        if (result == JOINED)
            return SS_OK;
        if (result == REFUSED)
            return SS_ERR_COMM;
        if (left <= 0)
            return report_unreachable(s);
        double sleep_s = fmin(pause_s, left);
        struct timespec nap = {(time_t)sleep_s, (long)(1e9 * (sleep_s - floor(sleep_s)))};
        nanosleep(&nap, NULL);
        pause_s = fmin(1.5 * pause_s, 0.5);
    }
}

/* Wait for rank 0's frame that all ranks have joined, or for its reason to end. */
static enum ss_status wait_for_world(const struct seeker *s, int fd, struct ss_tcp_world *world)
{
    struct ss_tcp_header header;
    char text[SS_TCP_TEXT] = "";
    /* Rank 0 was started first, so its own deadline is not later than this one. */
    double deadline = ss_seconds() + s->tcp->comm->timeout_s + GRACE_SECONDS;
    if (ss_tcp_receive_all(fd, &header, sizeof(header), deadline) != 0)
        return ss_fail(errno == ETIMEDOUT ? SS_ERR_TIMEOUT : SS_ERR_COMM,
                       "start-up: rank 0 (%s) accepted this rank, but sent no start message: %s",
                       s->root_host, strerror(errno));
    if (header.type == SS_TCP_WORLD && header.bytes == sizeof *world &&
        ss_tcp_receive_all(fd, world, sizeof *world, deadline) == 0)
        return SS_OK;
    if (header.type == SS_TCP_ABORT && header.bytes < sizeof text &&
        ss_tcp_receive_all(fd, text, header.bytes, deadline) == 0)
        return ss_fail(SS_ERR_COMM, "rank 0 (%s) aborted the start-up: %s", s->root_host, text);
    return ss_fail(SS_ERR_COMM, "start-up: rank 0 (%s) sent an invalid or incomplete message",
                   s->root_host);
}

enum ss_status ss_tcp_join(struct ss_tcp *tcp, const struct ss_comm_env *env,
                           const unsigned char *key, double deadline)
{
    struct seeker s = {.tcp = tcp, .env = env, .key = key, .deadline = deadline};
    struct ss_tcp_world world;
    int fd = -1;
    enum ss_status status = find_root(&s, &fd);
    if (s.address)
        freeaddrinfo(s.address);
    if (status == SS_OK)
        status = wait_for_world(&s, fd, &world);
    if (status != SS_OK) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    tcp->peers[0].fd = fd;
    memcpy(tcp->ranks[0].host, s.root_host, SS_WATCH_HOST);
    tcp->comm->nodes = world.nodes;
    tcp->comm->local_size = world.local_size;
    return SS_OK;
}
