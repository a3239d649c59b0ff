/* Network interfaces selected by NCCL_SOCKET_IFNAME. NCCL bootstraps over them, and sends data over
 * them if no faster network is available. The connections of the `tcp` backend (comm_tcp.h) ignore
 * the variable: a connecting rank knows rank 0 by its host name or MASTER_ADDR, not yet by the
 * address of an interface. Source: NCCL 2.27, src/misc/socket.cc, findInterfaces. */
#ifndef SS_COMM_COMM_INTERFACE_H
#define SS_COMM_COMM_INTERFACE_H

#include "core/status.h"

enum { SS_INTERFACE_NAME = 16, SS_INTERFACE_ADDRESS = 64 };

/* Return 1 if a list of NCCL_SOCKET_IFNAME or NCCL_IB_HCA matches `name`: prefixes ("hsn,ib"),
 * exact names after "=" ("=eth0,eth1"), or all others after a leading "^" ("^lo,docker",
 * "^=eth0"). A port may follow an adapter's name, "mlx5_0:1"; port 0 matches any. A list of less
 * than two characters matches everything. */
int ss_interface_matches(const char *list, const char *name, int port);

/* A running interface and its first address. */
struct ss_interface {
    char name[SS_INTERFACE_NAME], address[SS_INTERFACE_ADDRESS];
};

/* Find up to `capacity` interfaces that match the list, of the family NCCL_SOCKET_FAMILY if that is
 * set; list NULL: all except the loopback. Returns their number, or -1 and errno. */
int ss_interface_find(const char *list, struct ss_interface *out, int capacity);

/* Check that NCCL_SOCKET_IFNAME matches an interface; otherwise NCCL cannot start. Errors:
 * SS_ERR_INVALID, with the names of the existing interfaces. */
enum ss_status ss_interface_check(void);

#endif
