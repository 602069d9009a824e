/* x . y by a kernel of one's own. Its workspace has the parts of the formula in aclnn's texts: both inputs laid out
 * anew if one of them has gaps, an intermediate, sums of a reduction. Each part begins at a multiple of 64 bytes. */
#include <berth/op.h>
#include <stdio.h>
#include <stdlib.h>
enum { count = 1000, lanes = 10, size = count * sizeof(float) };
static float x[2 * count], y[count], result;
_Alignas(64) static char memory[4 * 4096];
#define TRY(call) \
  if ((call) != BERTH_OK) return fprintf(stderr, "%s\n", berth_error_text()), BERTH_INVALID

/* Phase one names the parts, and keeps the strides for the runs of the executor. */
static berth_status parts_of(void* context, const berth_kernel_request* r, berth_workspace* w) {
  int64_t* step = malloc(2 * sizeof *step);
  (void)context;
  if (step == NULL) return BERTH_NO_MEMORY;
  for (int i = 0; i < 2; ++i) step[i] = r->operands[i].strides[0];
  TRY(berth_workspace_keep(w, step, free));
  if (step[0] != sizeof(float) || step[1] != sizeof(float)) {
    TRY(berth_workspace_add(w, "first input, dense", size));
    TRY(berth_workspace_add(w, "second input, dense", size));
  }
  TRY(berth_workspace_add(w, "products", size));
  TRY(berth_workspace_add(w, "sums", lanes * sizeof(float)));
  return BERTH_OK;
}

/* Phase two computes, on a thread of the stream. It allocates nothing. */
static void compute(void* context, const berth_kernel_call* c) {
  const int64_t* step = c->state;
  float *in[2] = {c->operands[0], c->operands[1]}, *out = c->operands[2];
  float *product = c->parts[c->part_count - 2], *sum = c->parts[c->part_count - 1];
  (void)context;
  for (int i = 0; i < 2 && c->part_count == 4; ++i) {
    in[i] = c->parts[i];
    for (int k = 0; k < count; ++k) in[i][k] = *(float*)((char*)c->operands[i] + k * step[i]);
  }
  for (int k = 0; k < count; ++k) product[k] = in[0][k] * in[1][k];
  for (int l = 0; l < lanes; ++l) sum[l] = 0;
  for (int k = 0; k < count; ++k) sum[k % lanes] += product[k];
  *out = 0;
  for (int l = 0; l < lanes; ++l) *out += sum[l];
}

int main(void) {
  const berth_kernel dot = {.struct_size = sizeof dot, .name = "Dot", .workspace = parts_of, .compute = compute};
  const int64_t vector[] = {count}, gaps[] = {2 * sizeof(float)};
  berth_device* device;
  berth_stream* stream;
  berth_tensor *in[2], *out;
  berth_executor* executor;
  uint64_t wanted, part;
  const char* name;
  for (int k = 0; k < count; ++k) x[2 * k] = 2, y[k] = 3;
  TRY(berth_kernel_register(&dot));
  TRY(berth_device_open("host", &device));
  TRY(berth_stream_create(device, &stream));
  TRY(berth_tensor_create(BERTH_F32, vector, 1, gaps, x, sizeof x, &in[0]));
  TRY(berth_tensor_create(BERTH_F32, vector, 1, NULL, y, sizeof y, &in[1]));
  TRY(berth_tensor_create(BERTH_F32, NULL, 0, NULL, &result, sizeof result, &out));
  TRY(berth_op_workspace_size(device, "Dot", (const berth_tensor**)in, 2, NULL, 0, &out, 1, &wanted, &executor));
  printf("workspace: %d bytes\n", (int)wanted);
  for (size_t i = 0; berth_executor_workspace_part(executor, i, &name, &part) == BERTH_OK; ++i)
    printf("  %-20s %d\n", name, (int)part);
  TRY(berth_op_run(memory, sizeof memory, executor, stream));
  TRY(berth_stream_synchronize(stream));
  printf("x . y = %g\n", result);
  berth_executor_destroy(executor), berth_tensor_destroy(out), berth_tensor_destroy(in[0]), berth_tensor_destroy(in[1]);
  berth_stream_destroy(stream), berth_device_close(device), berth_kernel_unregister("Dot");
  return result != 6 * count;
}
