/* Boot ID of the running kernel. */
#ifndef SS_CORE_BOOT_ID_H
#define SS_CORE_BOOT_ID_H

enum { SS_BOOT_ID = 40 };

/* Set text to the boot ID, padded with zero bytes. It is the same for all processes of one kernel
 * until the next reboot, and different for all others. If it cannot be read, text is empty and
 * must not be compared. */
void ss_boot_id(char text[SS_BOOT_ID]);

#endif
