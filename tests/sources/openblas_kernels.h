/* Kernels in C that use the macros as a text on OpenBLAS prints them, and as OpenBLAS has them. */
#ifndef OPENBLAS_KERNELS_H
#define OPENBLAS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return the sum of n ones by way of a buffer; -1 if there is none. */
double sum_in_printed_form(uint64_t n);
double sum_in_own_form(uint64_t n);

/* Returns a buffer of n doubles that its caller frees with give_back(). */
double* made_here(uint64_t n);
void give_back(double* buffer);

/* Allocates so many buffers of n doubles that nothing frees. The line is forgotten_line. */
void forget(int buffers, uint64_t n);
extern const int forgotten_line;

#ifdef __cplusplus
}
#endif

#endif
