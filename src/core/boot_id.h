/* Which running kernel this process is under. */
#ifndef SS_CORE_BOOT_ID_H
#define SS_CORE_BOOT_ID_H

enum { SS_BOOT_ID = 40 };

/* The same bytes, zeros behind the text, for all processes under one kernel since it was started,
 * and for no others. Empty where it cannot be read: that is nobody's. */
void ss_boot_id(char text[SS_BOOT_ID]);

#endif
