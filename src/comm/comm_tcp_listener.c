/* comm_tcp_listener.c: rank 0's listening socket: inherited from its launcher, or its own. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/tcp_handshake.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum ss_status not_usable(int fd, const char *why)
{
    return ss_fail(SS_ERR_INVALID,
                   "STARSTEP_LISTEN_FD is %d, which is not a listening TCP socket (%s); starstep "
                   "launch sets it for rank 0; unset it elsewhere",
                   fd, why);
}

/* Check the socket; the descriptor is not modified before it has passed. */
static enum ss_status check_kind(int fd)
{
    static const struct {
        int option, value, other;
        const char *why;
    } wanted[] = {
        {SO_DOMAIN, AF_INET, AF_INET6, "it is not an IP socket"},
        {SO_TYPE, SOCK_STREAM, SOCK_STREAM, "it is not a stream socket"},
        {SO_PROTOCOL, IPPROTO_TCP, IPPROTO_TCP, "it is not a TCP socket"},
        {SO_ACCEPTCONN, 1, 1, "it is not listening"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int value;
        socklen_t length = sizeof value;
        if (getsockopt(fd, SOL_SOCKET, wanted[i].option, &value, &length) != 0)
            return not_usable(fd, strerror(errno));
        if (value != wanted[i].value && value != wanted[i].other)
            return not_usable(fd, wanted[i].why);
    }
    return SS_OK;
}

/* Check that the socket's port is one to which the other ranks connect. */
static enum ss_status check_port(const struct ss_comm_env *env, int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t length = sizeof address;
    char ports[64];
    if (getsockname(fd, &address.any, &length) != 0)
        return not_usable(fd, strerror(errno));
    int port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    for (int i = 0; i < env->nports; i++)
        if (env->ports[i] == port)
            return SS_OK;
    ss_comm_env_ports(env, ports);
    return ss_fail(
        SS_ERR_INVALID,
        "STARSTEP_LISTEN_FD is %d, a socket that listens on port %d, but the other ranks "
        "connect to rank 0 at %s; set MASTER_PORT to the same port",
        fd, port, ports);
}

static enum ss_status adopt(const struct ss_comm_env *env, int *listener)
{
    int fd = env->listener;
    SS_TRY(check_kind(fd));
    SS_TRY(check_port(env, fd));
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return not_usable(fd, strerror(errno));
    *listener = fd;
    return SS_OK;
}

enum ss_status ss_handshake_listen(struct ss_handshake *handshake)
{
    const struct ss_comm_env *env = handshake->env;
    char ports[64];
    if (env->listener >= 0)
        return adopt(env, &handshake->listener);
    for (int i = 0; i < env->nports; i++) {
        handshake->listener = ss_tcp_listen(env->host, env->ports[i]);
        if (handshake->listener >= 0)
            return SS_OK;
    }
    ss_comm_env_ports(env, ports);
    return ss_fail(SS_ERR_COMM, "rank 0 cannot listen on %s: %s; %s", ports, strerror(errno),
                   errno == EADDRINUSE ? "is another run using it? Set MASTER_PORT to a free port"
                                       : "set MASTER_PORT to another port");
}
