/* Qualifiers of functions shared by the kernels of all devices. */
#ifndef SS_KERNELS_ANY_DEVICE_H
#define SS_KERNELS_ANY_DEVICE_H

#ifdef __CUDACC__
#    define SS_ANY_DEVICE __host__ __device__
#else
#    define SS_ANY_DEVICE
#endif

#endif
