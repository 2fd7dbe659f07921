// FOLDGRAD_HD marks formulas that the CPU loops and the CUDA kernels share.
#pragma once
#ifdef __CUDACC__
#define FOLDGRAD_HD __host__ __device__
#else
#define FOLDGRAD_HD
#endif
