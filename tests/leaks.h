/* AddressSanitizer options of tests that start StarPU, hwloc or MPI. Leak detection is off, since
 * leaks of these libraries at exit are not ours to fix; all other unit tests free all memory.
 * Allocations beyond the available memory return NULL, as malloc() does. */
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
