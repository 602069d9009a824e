#ifndef KERNEL_H
#define KERNEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int sum_of_squares(size_t n, const float* x, size_t stride, float* sum);
int ping_pong(size_t layers, size_t bytes);
int sum_of_products(size_t n, const float* x, const float* y, float* sum);

#ifdef __cplusplus
}
#endif

#endif
