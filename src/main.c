/* Entry point of the program starstep: runs the library's command line. See start.c for earlier
 * startup. */
#include "api/starstep.h"

int main(int argc, char **argv)
{
    return ss_main(argc, argv);
}
