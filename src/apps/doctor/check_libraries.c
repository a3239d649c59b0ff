/* check_libraries.c: checks the libraries that NCCL loads at start, and where it finds them. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/nccl.h"
#include "apps/doctor/library.h"
#include "apps/doctor/procfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Whether NCCL_NET names a transport that NCCL does not provide itself. */
static int wants_plugin(void)
{
    const char *net = value_of("NCCL_NET");
    return *net && strcasecmp(net, "Socket") && strcasecmp(net, "IB");
}

/* NCCL's search: the value of NCCL_NET_PLUGIN as a file, then as the suffix of
 * libnccl-net-NAME.so; libnccl-net.so without a value (src/plugin/plugin_open.cc, 2026-06). The
 * RUNPATH of NCCL's own library is not considered here. */
static void try_plugin(struct ss_library *out, char name[256])
{
    static const char needs[] = "libfabric.so";
    const char *value = value_of("NCCL_NET_PLUGIN");
    const char *end = strrchr(value, '.');
    int file = strchr(value, '/') || (strstr(value, "lib") == value && end && !strcmp(end, ".so"));
    snprintf(name, 256, "%.200s", *value ? value : "libnccl-net.so");
    ss_library_try(name, needs, out);
    if (!*value || file || out->state != SS_LIBRARY_ABSENT)
        return;
    snprintf(name, 256, "libnccl-net-%.200s.so", value);
    ss_library_try(name, needs, out);
}

static void probe_plugin(const struct ss_doctor_options *o, struct ss_findings *f)
{
    struct ss_library plugin;
    char name[256];
    int wanted = wants_plugin() || o->fabric == SS_FABRIC_SLINGSHOT || *value_of("NCCL_NET_PLUGIN");
    if (!strcasecmp(value_of("NCCL_NET_PLUGIN"), "none")) {
        if (wants_plugin() || o->fabric == SS_FABRIC_SLINGSHOT)
            ss_find(f, wants_plugin() ? SS_BROKEN : SS_SLOW, "net.plugin",
                    "unset NCCL_NET_PLUGIN, or name aws-ofi-nccl's",
                    "NCCL_NET_PLUGIN=none disables the plugin that the network needs");
        return;
    }
    try_plugin(&plugin, name);
    if (plugin.state == SS_LIBRARY_LOADS)
        ss_find(f, SS_FINE, "net.plugin", NULL, "NCCL's network plugin is %s%s%s", plugin.path,
                *plugin.with ? ", with " : "", plugin.with);
    else if (plugin.state == SS_LIBRARY_FAILS)
        ss_find(f, wants_plugin() ? SS_BROKEN : SS_SLOW, "net.plugin",
                "put the folder of the library named first into LD_LIBRARY_PATH (in a "
                "container: bind that file too, with all that ldd shows)",
                "NCCL's network plugin %s does not load: %s", name, plugin.why);
    else if (wanted)
        ss_find(f, wants_plugin() ? SS_BROKEN : SS_SLOW, "net.plugin",
                wants_plugin() ? "load the module of aws-ofi-nccl, or put the plugin's folder into "
                                 "LD_LIBRARY_PATH; without NCCL_NET the run would go over TCP"
                               : "load the module of aws-ofi-nccl, or put the plugin's folder into "
                                 "LD_LIBRARY_PATH",
                "NCCL's network plugin %s is in no folder of the library path%s%.60s%s", name,
                wants_plugin() ? ", and NCCL_NET=\"" : "",
                wants_plugin() ? value_of("NCCL_NET") : "",
                wants_plugin() ? "\" is not a transport of NCCL itself" : "");
}

static void probe_library(struct ss_findings *f, const char *check, const char *name,
                          enum ss_verdict otherwise, const char *what)
{
    struct ss_library library;
    ss_library_try(name, NULL, &library);
    if (library.state == SS_LIBRARY_LOADS)
        ss_find(f, SS_FINE, check, NULL, "%s", library.path);
    else
        ss_find(f, otherwise, check,
                "load the site's module, or put the library's folder into LD_LIBRARY_PATH (in a "
                "container: bind it, with all that ldd shows)",
                "%s, which %s needs, does not load: %s", name, what, library.why);
}

static const char *nccl_version(void)
{
#ifdef HAVE_NCCL
    return ss_nccl_library();
#else
    return "this build has no NCCL";
#endif
}

/* Returns 1 if the version in "NCCL 2.28.9" is at least the given one. */
static int nccl_is(int major, int minor, int patch)
{
    int a = 0, b = 0, c = 0;
    if (sscanf(nccl_version(), "NCCL %d.%d.%d", &a, &b, &c) != 3)
        return 0;
    return a != major ? a > major : b != minor ? b > minor : c >= patch;
}

/* All-reduces over nodes of GH200 with Slingshot were occasionally wrong from NCCL 2.27.3 on
 * (github.com/NVIDIA/nccl issue 2001, open, 2026-01; pull request 2053, closed, 2026-03: LL128's
 * order over C2C). HPE avoids the affected path for messages of that size
 * (HewlettPackard/shs-ccl-docs pull request 21, 2026-04); disabling the protocol is safe. */
static void judge_nccl(const struct ss_doctor_options *o, struct ss_findings *f)
{
    const char *proto = value_of("NCCL_PROTO"), *ll128 = strstr(proto, "LL128");
    if (o->fabric != SS_FABRIC_SLINGSHOT || !nccl_is(2, 27, 3))
        return;
    int left_out = *proto == '^' ? ll128 != NULL : *proto && !ll128;
    int detour = !strcmp(value_of("FI_CXI_RDZV_THRESHOLD"), "0") &&
                 !strcmp(value_of("FI_CXI_RDZV_GET_MIN"), "0");
    if (!left_out)
        ss_find(f, detour ? SS_SLOW : SS_BROKEN, "net.ll128", "export NCCL_PROTO=^LL128",
                "%s may silently compute wrong all-reduces over Slingshot between GH200 nodes "
                "(nccl issue 2001)%s",
                nccl_version(),
                detour ? "; FI_CXI_RDZV_THRESHOLD=0 and FI_CXI_RDZV_GET_MIN=0 avoid the known case"
                       : "");
}

void ss_doctor_libraries(const struct ss_doctor_options *o, struct ss_comm *comm,
                         struct ss_findings *f)
{
    (void)comm;
    if (o->device == SS_DOCTOR_CPU)
        return; /* NCCL is not used */
    ss_find(f, SS_FINE, "net.nccl", NULL, "%s", nccl_version());
    probe_plugin(o, f);
    if (o->fabric == SS_FABRIC_SLINGSHOT) {
        enum ss_verdict missing = wants_plugin() ? SS_BROKEN : SS_SLOW;
        probe_library(f, "net.libfabric", "libfabric.so.1", missing, "the plugin");
        probe_library(f, "net.libcxi", "libcxi.so.1", missing, "libfabric");
        judge_nccl(o, f);
    } else if (o->fabric == SS_FABRIC_INFINIBAND) {
        probe_library(f, "net.libibverbs", "libibverbs.so.1", SS_BROKEN, "NCCL's InfiniBand");
    }
}
