/* A program in C99 that knows berth/op.h and nothing else of Berth: 1 + 2 = 3, by the two calls of an operator. */
#include "op_client.h"

#include "berth/op.h"

/* Numbers that programs were compiled with: they stay. */
typedef char elements_stay[BERTH_F32 == 0 && BERTH_F64 == 3 && BERTH_I64 == 10 && BERTH_BOOL == 12 ? 1 : -1];
typedef char kinds_stay[BERTH_ATTRIBUTE_INTEGER == 0 && BERTH_ATTRIBUTE_FLOATS == 4 ? 1 : -1];

enum { count = 1000 };

const char* op_client(void) {
  static float x[count], y[count], z[count];
  const int64_t shape[1] = {count};
  const char* wrong = "";
  berth_device* device = NULL;
  berth_stream* stream = NULL;
  berth_tensor *a = NULL, *b = NULL, *c = NULL;
  berth_executor* executor = NULL;
  uint64_t size = 1;
  int i;
  berth_attribute alpha = BERTH_INIT(berth_attribute);
  alpha.name = "alpha";
  alpha.kind = BERTH_ATTRIBUTE_FLOAT;
  alpha.number = 1;
  for (i = 0; i < count; ++i) {
    x[i] = 1;
    y[i] = 2;
  }
  if (berth_device_open("host", &device) != BERTH_OK || berth_stream_create(device, &stream) != BERTH_OK)
    return "stream";
  if (berth_tensor_create(BERTH_F32, shape, 1, NULL, x, sizeof x, &a) != BERTH_OK) wrong = "a";
  if (berth_tensor_create(BERTH_F32, shape, 1, NULL, y, sizeof y, &b) != BERTH_OK) wrong = "b";
  if (berth_tensor_create(BERTH_F32, shape, 1, NULL, z, sizeof z, &c) != BERTH_OK) wrong = "c";
  if (berth_add_workspace_size(device, a, b, &alpha, 1, c, &size, &executor) != BERTH_OK) wrong = "workspace_size";
  if (size != 0) wrong = "an addition wants a workspace";
  if (berth_add(NULL, size, executor, stream) != BERTH_OK) wrong = "add";
  if (berth_stream_synchronize(stream) != BERTH_OK) wrong = "synchronize";
  for (i = 0; i < count; ++i) {
    if (z[i] != 3) wrong = "1 + 2 is not 3";
  }
  berth_executor_destroy(executor);
  berth_tensor_destroy(a);
  berth_tensor_destroy(b);
  berth_tensor_destroy(c);
  berth_stream_destroy(stream);
  berth_device_close(device);
  return wrong;
}
