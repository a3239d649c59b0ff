/* Sockets with deadlines; only for src/comm. All sockets are non-blocking and close-on-exec, and
 * never raise SIGPIPE. Deadlines are times of ss_seconds(). */
#ifndef SS_COMM_COMM_TCP_SOCKET_H
#define SS_COMM_COMM_TCP_SOCKET_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SS_TCP_ADDRESS = 80 };

/* "10.0.0.5 port 4711" */
void ss_tcp_address_text(const struct sockaddr *address, socklen_t length,
                         char text[SS_TCP_ADDRESS]);

/* Set TCP_NODELAY and keepalive. */
void ss_tcp_socket_options(int fd);

/* Listen on one port: on the loopback only if `host` is a loopback address ("localhost",
 * "127.0.0.1", "::1"), else on all addresses, IPv4 and IPv6. Returns the socket, or -1 and
 * errno. */
int ss_tcp_listen(const char *host, int port);

/* Connect. Returns the socket, or -1 and errno (ETIMEDOUT at the deadline). */
int ss_tcp_connect(const struct sockaddr *address, socklen_t length, double deadline);

/* Send, or receive, all bytes: 0, or -1 and errno; ETIMEDOUT at the deadline, ECONNRESET when the
 * other side has closed the connection. */
int ss_tcp_send_all(int fd, const void *data, size_t bytes, double deadline);
int ss_tcp_receive_all(int fd, void *data, size_t bytes, double deadline);

/* Receive available bytes, at most `bytes`. Returns their number, 0 if none are available now, -1
 * and errno if the connection has ended. */
ssize_t ss_tcp_receive_some(int fd, void *data, size_t bytes);
/* Send what fits into the kernel's buffer now; returns as above. */
ssize_t ss_tcp_send_some(int fd, struct iovec *parts, int nparts);

#endif
