/* Which of a node's network interfaces NCCL_SOCKET_IFNAME means. NCCL meets its ranks there, and
 * sends its data there where it has no better network. Ranks' own connections (comm_tcp.h) do not
 * read it: who connects knows rank 0 by its node's name or by MASTER_ADDR, and not yet by the address
 * of an interface. Source: NCCL 2.27, src/misc/socket.cc, findInterfaces. */
#ifndef SS_COMM_COMM_INTERFACE_H
#define SS_COMM_COMM_INTERFACE_H

#include "core/status.h"

enum { SS_INTERFACE_NAME = 16, SS_INTERFACE_ADDRESS = 64 };

/* 1 where a list, NCCL_SOCKET_IFNAME's or NCCL_IB_HCA's, means what has this name: beginnings of names
 * ("hsn,ib"), whole names behind "=" ("=eth0,eth1"), and behind a leading "^" all others ("^lo,docker",
 * "^=eth0"). Of adapters a port may follow, "mlx5_0:1"; port 0 is any. A list of less than two characters means all. */
int ss_interface_matches(const char *list, const char *name, int port);

/* An interface that runs, and its first address. */
struct ss_interface {
    char name[SS_INTERFACE_NAME], address[SS_INTERFACE_ADDRESS];
};

/* Up to `room` interfaces that the list means, of NCCL_SOCKET_FAMILY's kind where that is set; list
 * NULL: all but the loopback. Returns how many; -1 where the node does not tell, errno says why. */
int ss_interface_find(const char *list, struct ss_interface *out, int room);

/* NCCL would not start where the variable means no interface. Errors: SS_ERR_INVALID, with the names
 * of those that there are. */
enum ss_status ss_interface_check(void);

#endif
