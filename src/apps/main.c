/* Entry point of the program starstep. See start.c for earlier startup. */
#include "apps/starstep-cli.h"

int main(int argc, char **argv)
{
    return ss_main(argc, argv);
}
