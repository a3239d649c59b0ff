/* comm_tcp_socket.c: sockets with deadlines (contract in comm_tcp_socket.h). */
#include "comm/comm_tcp_socket.h"
#include "core/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ss_tcp_address_text(const struct sockaddr *address, socklen_t length,
                         char text[SS_TCP_ADDRESS])
{
    char host[64], port[8];
    if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(text, SS_TCP_ADDRESS, "an unknown address");
        return;
    }
    /* An IPv4 peer of a dual-stack socket. */
    const char *shown = strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.') ? host + 7 : host;
    snprintf(text, SS_TCP_ADDRESS, "%s port %s", shown, port);
}

static void set(int fd, int level, int name, int value)
{
    /* All of these are optional: failure is ignored. */
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

void ss_tcp_socket_options(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

static int close_keeping_errno(int fd)
{
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

static int listen_on(const struct sockaddr *address, socklen_t length)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    /* Reuse ports with connections in TIME_WAIT. */
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(fd, address, length) != 0 || listen(fd, SOMAXCONN) != 0)
        return close_keeping_errno(fd);
    return fd;
}

int ss_tcp_listen(const char *host, int port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    const char *literal = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (strncmp(literal, "127.", 4) == 0 && inet_pton(AF_INET, literal, &v4.sin_addr) == 1)
        return listen_on((struct sockaddr *)&v4, sizeof v4);
    v6.sin6_addr = strcmp(host, "::1") == 0 ? in6addr_loopback : in6addr_any;
    int fd = listen_on((struct sockaddr *)&v6, sizeof v6);
    if (fd >= 0 || errno == EADDRINUSE || errno == EACCES)
        return fd;
    v4.sin_addr.s_addr = htonl(INADDR_ANY); /* a kernel without IPv6 */
    return listen_on((struct sockaddr *)&v4, sizeof v4);
}

/* Wait until the socket has `events`: 0, or -1 and errno (ETIMEDOUT at the deadline). */
static int wait_for(int fd, short events, double deadline)
{
    struct pollfd one = {.fd = fd, .events = events};
    for (;;) {
        double left = deadline - ss_seconds();
        if (left <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        int n = poll(&one, 1, (int)ceil(1e3 * fmin(left, 1e5)));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -1;
    }
}

int ss_tcp_connect(const struct sockaddr *address, socklen_t length, double deadline)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
    socklen_t error_length = sizeof error;
    if (fd < 0)
        return -1;
    ss_tcp_socket_options(fd);
    if (connect(fd, address, length) == 0)
        return fd;
    if (errno != EINPROGRESS || wait_for(fd, POLLOUT, deadline) != 0)
        return close_keeping_errno(fd);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_length) != 0)
        return close_keeping_errno(fd);
    errno = error;
    return error == 0 ? fd : close_keeping_errno(fd);
}

ssize_t ss_tcp_receive_some(int fd, void *data, size_t bytes)
{
    for (;;) {
        ssize_t n = recv(fd, data, bytes, 0);
        if (n > 0)
            return n;
        if (n == 0) {
            errno = ECONNRESET;
            return -1;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

ssize_t ss_tcp_send_some(int fd, struct iovec *parts, int nparts)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)nparts};
    for (;;) {
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n >= 0)
            return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

int ss_tcp_send_all(int fd, const void *data, size_t bytes, double deadline)
{
    struct iovec part = {(void *)data, bytes};
    while (part.iov_len > 0) {
        ssize_t n = ss_tcp_send_some(fd, &part, 1);
        if (n < 0 || (n == 0 && wait_for(fd, POLLOUT, deadline) != 0))
            return -1;
        part.iov_base = (char *)part.iov_base + n;
        part.iov_len -= (size_t)n;
    }
    return 0;
}

int ss_tcp_receive_all(int fd, void *data, size_t bytes, double deadline)
{
    char *to = data;
    while (bytes > 0) {
        /* The deadline also applies between bytes. */
        if (wait_for(fd, POLLIN, deadline) != 0)
            return -1;
        ssize_t n = ss_tcp_receive_some(fd, to, bytes);
        if (n < 0)
            return -1;
        to += n;
        bytes -= (size_t)n;
    }
    return 0;
}
