#include "apps/doctor/links.h"

#include <string.h>

/* 12 links of 25 GB/s of an A100 and 18 of a Hopper (NVIDIA's data sheets of A100, H100, H200 and
 * GH200: 600 and 900 GB/s in both directions). Boards with four GPUs and no switch give each pair
 * a third of these. */
static const struct {
    const char *begins, *has;
    double gb_s;
} nvlinks[] = {{"NVIDIA A100-SXM", "", 100},
               {"NVIDIA H100", "HBM3", 150},
               {"NVIDIA H200", "", 150},
               {"NVIDIA GH200", "", 150}};

double ss_links_nvlink(const char *gpu)
{
    if (strstr(gpu, "NVL") || strstr(gpu, "PCIe"))
        return -1;
    for (size_t i = 0; i < sizeof nvlinks / sizeof *nvlinks; i++)
        if (!strncmp(gpu, nvlinks[i].begins, strlen(nvlinks[i].begins)) &&
            strstr(gpu, nvlinks[i].has))
            return nvlinks[i].gb_s;
    return -1;
}
