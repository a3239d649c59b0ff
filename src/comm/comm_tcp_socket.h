/* Sockets with deadlines; only for src/comm/comm_tcp*.c. All sockets are non-blocking, close on
 * exec, and never raise SIGPIPE. Deadlines are dates of ss_seconds(). */
#ifndef SS_COMM_COMM_TCP_SOCKET_H
#define SS_COMM_COMM_TCP_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SS_TCP_ADDRESS = 80 };

/* "10.0.0.5 port 4711" */
void ss_tcp_address_text(const struct sockaddr *address, socklen_t length,
                         char text[SS_TCP_ADDRESS]);

/* No delay for small messages, and keepalive. */
void ss_tcp_socket_options(int fd);

/* Listen on one port: on this machine's own addresses alone if `host` is a literal one of them
 * ("localhost", "127.0.0.1", "::1"), else on all, IPv4 and IPv6. Returns the socket, or -1 and
 * errno. */
int ss_tcp_listen(const char *host, int port);

/* Returns the socket, or -1 and errno (ETIMEDOUT at the deadline). */
int ss_tcp_connect(const struct sockaddr *address, socklen_t length, double deadline);

/* Send, or receive, all bytes: 0, or -1 and errno; ETIMEDOUT at the deadline, ECONNRESET when the
 * other side has closed the connection. */
int ss_tcp_send_all(int fd, const void *data, size_t bytes, double deadline);
int ss_tcp_receive_all(int fd, void *data, size_t bytes, double deadline);

/* Take what is there, at most `bytes`: their number, 0 if nothing is there now, -1 and errno if the
 * connection has ended. */
ssize_t ss_tcp_receive_some(int fd, void *data, size_t bytes);
/* Send what the kernel takes now; the same results. */
ssize_t ss_tcp_send_some(int fd, struct iovec *parts, int nparts);

#endif
