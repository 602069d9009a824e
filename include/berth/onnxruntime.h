/* A pool as ONNX Runtime's allocator, in C99: several sessions share it, with its limit, statistics, log and report.
 *
 *   berth_pool_create(device, NULL, &pool);                                  // device "host"; berth/pool.h
 *   api->CreateMemoryInfo("Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault, &info);
 *   berth_stream_create(device, &stream);
 *   berth_onnxruntime_options o = {.struct_size = sizeof o, .api_version = ORT_API_VERSION, .info = info};
 *   berth_onnxruntime_create(pool, stream, &o, &allocator);
 *   api->RegisterAllocator(env, allocator);
 *   api->AddSessionConfigEntry(session_options, "session.use_env_allocators", "1");   // for each session
 *   ...
 *   api->UnregisterAllocator(env, info);
 *   api->ReleaseEnv(env);                                                    // then, and not before:
 *   berth_onnxruntime_destroy(allocator, &alive);
 *
 * ONNX Runtime is neither linked nor included: the struct OrtAllocator is declared here as its C interface fixes it
 * (onnxruntime_c_api.h), slot by slot as versions added them. Of what the library at run time does not know the slots
 * are null. The allocator takes the place of ONNX Runtime's own arena for its device.
 *
 * Threads. All functions of the allocator may be called from several threads at once, as ONNX Runtime does. The pool
 * stays alive while the allocator does, destroyed or not. Errors: berth/status.h. Units are bytes. */
#ifndef BERTH_ONNXRUNTIME_H
#define BERTH_ONNXRUNTIME_H

#include "berth/pool.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

struct OrtAllocator;
struct OrtMemoryInfo;
struct OrtKeyValuePairs;

typedef struct berth_onnxruntime_options {
  size_t struct_size;
  uint32_t api_version; /* what OrtApiBase::GetApi() was asked for: 1.N is N; at least 1 */
  uint32_t reserved;    /* 0 */
  const struct OrtMemoryInfo*
      info; /* which device's memory it is; stays the caller's, and must outlive the allocator */
  /* OrtApi::CreateKeyValuePairs and OrtApi::AddKeyValuePair, with which statistics are handed out (from 23 on); null:
   * there are none for ONNX Runtime. */
  void (*create_pairs)(struct OrtKeyValuePairs** out);
  void (*add_pair)(struct OrtKeyValuePairs* pairs, const char* key, const char* value);
} berth_onnxruntime_options;

/* The allocator, in *out. `stream` is that of the pool on which everything is enqueued; of the host any will do. It may
 * be destroyed while the allocator is alive. */
berth_status berth_onnxruntime_create(berth_pool* pool, berth_stream* stream, const berth_onnxruntime_options* options,
                                      struct OrtAllocator** out);
/* ONNX Runtime must hold it no more: first the sessions and the environment go. *alive (unless null) is how many blocks
 * nobody freed; they stay the pool's, whose end reports them. The pool and the stream may go with it, so not from
 * within a stream's work (berth/status.h): BERTH_INVALID, as for what is no allocator of ours. Null does nothing. */
berth_status berth_onnxruntime_destroy(struct OrtAllocator* allocator, uint64_t* alive);

typedef struct berth_onnxruntime_counts {
  size_t struct_size;
  uint64_t allocations; /* that succeeded, reserved ones included */
  uint64_t reserves;    /* Reserve: initializers */
  uint64_t frees;
  uint64_t failures;      /* no memory, or more than there can be; ONNX Runtime was given a null */
  uint64_t unknown_frees; /* of what was no live block of the pool: passed over, with a line on standard error for the
                             first */
} berth_onnxruntime_counts;
/* Fills as much of *counts as its struct_size has room for. */
berth_status berth_onnxruntime_counts_of(const struct OrtAllocator* allocator, berth_onnxruntime_counts* counts);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop

#endif
