/* For tests that start StarPU, hwloc or MPI: what these leave behind at the end is not ours to fix, so the address
 * sanitizer is not asked for it. All other unit tests give back all memory. Asked for more than there is, it returns
 * NULL as malloc() does. */
#ifndef SS_TESTS_LEAKS_H
#define SS_TESTS_LEAKS_H

#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:allocator_may_return_null=1";
}
#endif

#endif
