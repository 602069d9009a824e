// ONNX Runtime's allocator as its programs see it.
#pragma once

#include <cstddef>
#include <cstdint>

struct OrtKeyValuePairs;

namespace berth::support {

// The struct as ONNX Runtime 1.25 has it, written down once more.
struct onnxruntime_slots {
  std::uint32_t version;
  void* (*alloc)(void*, std::size_t);
  void (*free)(void*, void*);
  const void* (*info)(const void*);
  void* (*reserve)(void*, std::size_t);
  void* (*get_stats)(const void*, OrtKeyValuePairs**);
  void* (*alloc_on_stream)(void*, std::size_t, void*);
  void* (*shrink)(void*);
};

}  // namespace berth::support
