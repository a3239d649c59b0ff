/* The program starstep: the library's command line. What it does before is in start.c. */
#include "api/starstep.h"

int main(int argc, char **argv)
{
    return ss_main(argc, argv);
}
