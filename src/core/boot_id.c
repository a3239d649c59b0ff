#include "core/boot_id.h"

#include <stdio.h>
#include <string.h>

void ss_boot_id(char text[SS_BOOT_ID])
{
    char line[SS_BOOT_ID] = "";
    memset(text, 0, SS_BOOT_ID);
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f)
        return;
    if (fgets(line, sizeof line, f))
        memcpy(text, line, strcspn(line, "\n"));
    fclose(f);
}
