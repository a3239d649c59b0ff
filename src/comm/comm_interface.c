/* comm_interface.c: select network interfaces by NCCL's lists (contract in comm_interface.h). */
#include "comm/comm_interface.h"
#include "core/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64 };

static int means(const char *item, size_t length, const char *name, int port, int whole)
{
    const char *colon = memchr(item, ':', length);
    const int wanted = colon ? atoi(colon + 1) : 0;
    const size_t n = colon ? (size_t)(colon - item) : length;
    return strncmp(item, name, n) == 0 && (!whole || strlen(name) == n) &&
           (port == 0 || wanted == 0 || port == wanted);
}

int ss_interface_matches(const char *list, const char *name, int port)
{
    if (strlen(list) < 2) /* NCCL then ignores the list */
        return 1;
    const int others = *list == '^';
    list += others;
    const int whole = *list == '=';
    list += whole;
    int any = 0, found = 0;
    while (*list) {
        const size_t length = strcspn(list, ",");
        any |= length > 0;
        found |= length > 0 && means(list, length, name, port, whole);
        list += length + (list[length] == ',');
    }
    return (found || !any) != others;
}

/* AF_INET, AF_INET6, or 0 for both. */
static int wanted_family(void)
{
    const char *text = getenv("NCCL_SOCKET_FAMILY");
    if (!text)
        return 0;
    return !strcmp(text, "AF_INET") ? AF_INET : !strcmp(text, "AF_INET6") ? AF_INET6 : 0;
}

/* Whether NCCL considers this interface. If so, text is its address. */
static int address_of(const struct ifaddrs *i, int family, char text[SS_INTERFACE_ADDRESS])
{
    const struct sockaddr *a = i->ifa_addr;
    if (!a || !(i->ifa_flags & IFF_RUNNING) || (family && a->sa_family != family))
        return 0;
    if (a->sa_family == AF_INET)
        return inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr, text,
                         SS_INTERFACE_ADDRESS) != NULL;
    if (a->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    return !IN6_IS_ADDR_LOOPBACK(six) &&
           inet_ntop(AF_INET6, six, text, SS_INTERFACE_ADDRESS) != NULL;
}

static int has(const struct ss_interface *all, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(all[i].name, name))
            return 1;
    return 0;
}

int ss_interface_find(const char *list, struct ss_interface *out, int capacity)
{
    struct ifaddrs *first;
    const int family = wanted_family();
    int n = 0;
    if (getifaddrs(&first))
        return -1;
    for (const struct ifaddrs *i = first; i && n < capacity; i = i->ifa_next) {
        const int wanted =
            list ? ss_interface_matches(list, i->ifa_name, 0) : !(i->ifa_flags & IFF_LOOPBACK);
        if (!wanted || has(out, n, i->ifa_name) || !address_of(i, family, out[n].address))
            continue;
        snprintf(out[n++].name, sizeof out->name, "%s", i->ifa_name);
    }
    freeifaddrs(first);
    return n;
}

enum ss_status ss_interface_check(void)
{
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    struct ss_interface all[MOST];
    char host[256] = "", names[MOST * (SS_INTERFACE_NAME + 2)] = "";
    size_t used = 0;
    if (!list || strlen(list) < 2) /* NCCL then ignores the list */
        return SS_OK;
    int n = ss_interface_find(list, all, MOST);
    if (n > 0)
        return SS_OK;
    if (n < 0)
        return ss_fail(SS_ERR_LIBRARY, "getifaddrs: %s", strerror(errno));
    n = ss_interface_find(NULL, all, MOST);
    for (int i = 0; i < n; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", all[i].name);
    gethostname(host, sizeof host - 1);
    return ss_fail(
        SS_ERR_INVALID,
        "NCCL_SOCKET_IFNAME=%s matches no running network interface on %s, which has %s; "
        "NCCL cannot start: set it to a prefix of one of these names, or unset it",
        list, host, n > 0 ? names : "only the loopback");
}
