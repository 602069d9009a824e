/* 1 + 2 = 3, a million times, in the steps that an aclnn program has. usage: example_08_operator [DEVICE] */
#include <berth/op.h>
#include <berth/pool.h>
#include <stdio.h>
enum { count = 1000000, size = count * sizeof(float) };
static float host[3][count];
#define DO(call) \
  if ((call) != BERTH_OK) return fprintf(stderr, "%s\n", berth_error_text()), 1

int main(int argc, char** argv) {
  const int64_t shape[] = {count};
  berth_device* device;
  berth_stream* stream;
  berth_pool* pool;
  berth_tensor* t[3];
  berth_executor* executor;
  void *memory[3], *workspace = NULL;
  uint64_t wanted, wrong = 0;
  DO(berth_device_open(argc > 1 ? argv[1] : "host", &device)); /* 1 the device */
  DO(berth_stream_create(device, &stream));                    /* 2 a stream */
  DO(berth_pool_create(device, NULL, &pool));                  /* 3 a pool */
  for (int i = 0; i < 3; ++i) {                                /* 4 memory; 5 inputs; 6 tensors */
    for (int k = 0; k < count; ++k) host[i][k] = i == 2 ? 0.0f : (float)(i + 1);
    DO(berth_pool_allocate(pool, size, stream, &memory[i]));
    DO(berth_stream_copy(stream, memory[i], host[i], size));
    DO(berth_tensor_create(BERTH_F32, shape, 1, NULL, memory[i], size, &t[i]));
  }
  DO(berth_add_workspace_size(device, t[0], t[1], NULL, 0, t[2], &wanted, &executor)); /* 7 phase one */
  if (wanted != 0) DO(berth_pool_allocate(pool, wanted, stream, &workspace));          /* 8 the workspace */
  DO(berth_add(workspace, wanted, executor, stream));                                  /* 9 phase two */
  DO(berth_stream_copy(stream, host[2], memory[2], size));                             /* 10 the result */
  DO(berth_stream_synchronize(stream));
  for (int k = 0; k < count; ++k) wrong += host[2][k] != 3;
  printf("1 + 2 = %g, %d of %d wrong\n", host[2][count - 1], (int)wrong, (int)count);
  berth_executor_destroy(executor); /* 11 free everything */
  for (int i = 0; i < 3; ++i) berth_tensor_destroy(t[i]), berth_pool_free(pool, memory[i]);
  berth_pool_free(pool, workspace), berth_pool_destroy(pool), berth_stream_destroy(stream), berth_device_close(device);
  return wrong != 0;
}
