/* How NCCL chooses interfaces and adapters by name. */
#ifndef SS_DOCTOR_INTERFACE_H
#define SS_DOCTOR_INTERFACE_H

/* Would NCCL use `name` by this value of NCCL_SOCKET_IFNAME or NCCL_IB_HCA? A list of prefixes,
 * separated by commas, behind "=" of whole names, behind "^" of what is not to be used ("^=" for
 * both). Of adapters a port may follow, "mlx5_0:1"; port 0: any.
 * Source: NCCL's documentation, environment variables; parseStringList and matchIf in src/misc/utils.cc
 * (2026-06). */
int ss_interface_matches(const char *value, const char *name, int port);

#endif
