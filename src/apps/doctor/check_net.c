/* check_net.c: checks the node's network interfaces and adapters against NCCL's settings. */
#include "comm/comm_interface.h"
#include "apps/doctor/procfs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERFACES = 64, PORTS = 16 };

struct interface {
    char name[SS_PROBE_NAME];
    int up;
    double gbit; /* 0: unknown */
};

static int list_interfaces(const struct ss_doctor_options *o, struct interface *out)
{
    static char name[INTERFACES][SS_PROBE_NAME];
    int n = ss_probe_names(o, "/sys/class/net", name, INTERFACES), found = 0;
    for (int i = 0; i < n; i++) {
        char state[32];
        if (!ss_probe_text(o, state, sizeof state, "/sys/class/net/%s/operstate", name[i]))
            continue; /* a file such as bonding_masters, not an interface */
        double mbit = ss_probe_number(o, "/sys/class/net/%s/speed", name[i]);
        struct interface *one = &out[found++];
        memcpy(one->name, name[i], sizeof one->name);
        /* Loopback and tunnels report no state. */
        one->up = !strcmp(state, "up") || !strcmp(state, "unknown");
        one->gbit = mbit > 0 ? mbit / 1000 : 0;
    }
    return found;
}

static void list(const struct interface *all, int n, char *text, size_t capacity)
{
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < n && used < capacity; i++) {
        char speed[32] = "";
        if (!strcmp(all[i].name, "lo"))
            continue;
        if (all[i].gbit > 0)
            snprintf(speed, sizeof speed, " %g Gbit/s", all[i].gbit);
        used += (size_t)snprintf(text + used, capacity - used, "%s%.60s %s%s", used ? ", " : "",
                                 all[i].name, all[i].up ? "up" : "down", speed);
    }
}

/* Check the interfaces selected by NCCL_SOCKET_IFNAME. */
static void judge_socket(const struct interface *all, int n, struct ss_findings *f)
{
    static const char advice[] = "name one that exists and is up on all nodes, or unset "
                                 "NCCL_SOCKET_IFNAME; prefixes without = "
                                 "select all interfaces that begin with them";
    const char *value = getenv("NCCL_SOCKET_IFNAME");
    char chosen[256] = "", down[256] = "";
    if (!value || !*value)
        return;
    for (int i = 0; i < n; i++)
        if (ss_interface_matches(value, all[i].name, 0)) {
            char *to = all[i].up ? chosen : down;
            size_t used = strlen(to);
            snprintf(to + used, sizeof chosen - used, "%s%.60s", used ? ", " : "", all[i].name);
        }
    if (*chosen)
        ss_find(f, SS_FINE, "net.socket", NULL, "NCCL_SOCKET_IFNAME=%.80s chooses %.200s", value,
                chosen);
    else if (*down)
        ss_find(f, SS_BROKEN, "net.socket", advice,
                "NCCL_SOCKET_IFNAME=%.80s chooses %.200s, which is down", value, down);
    else
        ss_find(f, SS_BROKEN, "net.socket", advice,
                "NCCL_SOCKET_IFNAME=%.80s chooses no interface of this node", value);
}

struct port {
    char adapter[SS_PROBE_NAME];
    int number, active, ethernet;
    double gbit;
};

static int list_ports(const struct ss_doctor_options *o, struct port *out)
{
    static char adapter[PORTS][SS_PROBE_NAME], number[PORTS][SS_PROBE_NAME];
    static const char class[] = "/sys/class/infiniband";
    int n = ss_probe_names(o, class, adapter, PORTS), found = 0;
    for (int i = 0; i < n; i++) {
        char folder[256], text[64];
        snprintf(folder, sizeof folder, "%s/%.60s/ports", class, adapter[i]);
        int m = ss_probe_names(o, folder, number, PORTS);
        for (int k = 0; k < m && found < PORTS; k++) {
            struct port *p = &out[found++];
            memcpy(p->adapter, adapter[i], sizeof p->adapter);
            p->number = atoi(number[k]);
            ss_probe_text(o, text, sizeof text, "%s/%s/state", folder, number[k]); /* "4: ACTIVE" */
            p->active = strstr(text, "ACTIVE") != NULL;
            ss_probe_text(o, text, sizeof text, "%s/%s/link_layer", folder, number[k]);
            p->ethernet = !strcmp(text, "Ethernet");
            p->gbit =
                ss_probe_number(o, "%s/%s/rate", folder, number[k]); /* "200 Gb/sec (4X HDR)" */
        }
    }
    return found;
}

/* Check that NCCL has an InfiniBand adapter. */
static void judge_ports(const struct ss_doctor_options *o, const struct port *all, int n,
                        struct ss_findings *f)
{
    const char *value = getenv("NCCL_IB_HCA");
    enum ss_verdict missing = o->fabric == SS_FABRIC_INFINIBAND ? SS_BROKEN : SS_SLOW;
    int chosen = 0, active = 0, ethernet = 0;
    double fastest = 0;
    for (int i = 0; i < n; i++) {
        if (value && *value && !ss_interface_matches(value, all[i].adapter, all[i].number))
            continue;
        chosen++;
        active += all[i].active;
        ethernet += all[i].active && all[i].ethernet;
        if (all[i].active && all[i].gbit > fastest)
            fastest = all[i].gbit;
    }
    if (value && *value && !chosen)
        ss_find(f, missing, "net.infiniband",
                "name adapters that all nodes have (ibstat lists them), full names after =: "
                "NCCL_IB_HCA==mlx5_0,mlx5_1",
                "NCCL_IB_HCA=%.80s chooses none of this node's adapters", value);
    else if (chosen && !active)
        ss_find(f, missing, "net.infiniband",
                "ask the site's staff, or leave the node out (--exclude)",
                "no port of an adapter that NCCL may use is active");
    else if (ethernet && ethernet < active && o->fabric == SS_FABRIC_INFINIBAND)
        ss_find(f, SS_SLOW, "net.infiniband",
                "list the InfiniBand adapters by full names after =: NCCL_IB_HCA==mlx5_0,mlx5_1",
                "NCCL would use InfiniBand and Ethernet (RoCE) ports alike, %d and %d",
                active - ethernet, ethernet);
    else if (ethernet && o->fabric == SS_FABRIC_INFINIBAND)
        ss_find(f, SS_SLOW, "net.infiniband",
                "list the InfiniBand adapters by full names after =: NCCL_IB_HCA==mlx5_0,mlx5_1",
                "all ports that NCCL would use are Ethernet's");
    else if (o->fabric == SS_FABRIC_INFINIBAND && o->link_gbit > fastest * 1.01) {
        ss_find(f, SS_SLOW, "net.infiniband",
                "a port that came up at a lower rate has a bad cable or switch port: report it to "
                "the site's "
                "staff, or leave the node out (--exclude)",
                "the fastest port that NCCL may use has {} Gbit/s");
        ss_find_figure(f, fastest, o->link_gbit, "Gbit/s");
    }
}

static void probe_ports(const struct ss_doctor_options *o, struct ss_findings *f)
{
    struct port all[PORTS];
    char text[SS_FINDING_TEXT] = "";
    size_t used = 0;
    int n = list_ports(o, all);
    for (int i = 0; i < n && used < sizeof text; i++)
        used += (size_t)snprintf(
            text + used, sizeof text - used, "%s%s:%d %s %s %g Gbit/s", used ? ", " : "",
            all[i].adapter, all[i].number, all[i].ethernet ? "Ethernet" : "InfiniBand",
            all[i].active ? "active" : "not active", isnan(all[i].gbit) ? 0 : all[i].gbit);
    if (n)
        ss_find(f, SS_FINE, "net.adapters", NULL, "adapters: %s", text);
    if (n)
        judge_ports(o, all, n, f);
    else if (o->fabric == SS_FABRIC_INFINIBAND)
        ss_find(f, SS_BROKEN, "net.infiniband",
                "ask for nodes with InfiniBand, set the site's FABRIC right, or show the container "
                "/sys and /dev/infiniband",
                "the fabric is set to InfiniBand, but this node has no InfiniBand adapter");
}

static void probe_slingshot(const struct ss_doctor_options *o, struct ss_findings *f)
{
    static char card[INTERFACES][SS_PROBE_NAME];
    int n = ss_probe_names(o, "/sys/class/cxi", card, INTERFACES), devices = 0;
    for (int i = 0; i < n; i++)
        devices += ss_probe_exists(o, "/dev/%s", card[i]);
    if (n)
        ss_find(f, SS_FINE, "net.cards", NULL, "%d Slingshot card%s (cxi)", n, n > 1 ? "s" : "");
    if (o->fabric != SS_FABRIC_SLINGSHOT)
        return;
    if (!n)
        ss_find(
            f, SS_BROKEN, "net.slingshot",
            "ask for nodes with Slingshot, or set the site's FABRIC right",
            "the fabric is set to Slingshot, but this node has no Slingshot card (/sys/class/cxi)");
    else if (devices < n)
        ss_find(f, SS_BROKEN, "net.slingshot", "show the container the host's /dev (cxi*)",
                "%d of %d Slingshot cards have no device file /dev/cxi*", n - devices, n);
}

void ss_doctor_net(const struct ss_doctor_options *o, struct ss_comm *comm, struct ss_findings *f)
{
    static struct interface all[INTERFACES];
    char text[SS_FINDING_TEXT - 16];
    (void)comm;
    int n = list_interfaces(o, all);
    list(all, n, text, sizeof text);
    ss_find(f, SS_FINE, "net.interface", NULL, "interfaces: %s", *text ? text : "none but lo");
    judge_socket(all, n, f);
    probe_ports(o, f);
    probe_slingshot(o, f);
}
