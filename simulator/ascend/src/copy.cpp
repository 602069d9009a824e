// Copies and fills.
#include <cstring>

#include "world.hpp"

using namespace ascend_simulator;

namespace {

constexpr number copy_alignment = 64;

struct copy_job {
  void* to;
  const void* from;
  std::size_t to_pitch, from_pitch, width, height;  // a plain copy has one row
  int kind;
  std::byte* to_bytes = nullptr;  // where the workers find both ends
  const std::byte* from_bytes = nullptr;
  [[nodiscard]] bool to_device() const {
    return kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  }
  [[nodiscard]] bool from_device() const {
    return kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  }
  [[nodiscard]] std::vector<use> uses() const {
    std::vector<use> all;
    for (std::size_t row = 0; row < height; ++row) {
      all.push_back({static_cast<const std::byte*>(from) + row * from_pitch, width, false, "the source of a copy"});
    }
    for (std::size_t row = 0; row < height; ++row) {
      all.push_back({static_cast<std::byte*>(to) + row * to_pitch, width, true, "the destination of a copy"});
    }
    return all;
  }
  void run() const {
    const std::lock_guard lock{the().bytes_mutex};
    for (std::size_t row = 0; row < height; ++row) {
      std::memmove(to_bytes + row * to_pitch, from_bytes + row * from_pitch, width);
    }
  }
};

// The caller holds the mutex.
aclError check_end(const void* p, std::size_t size, bool on_device, const char* which) {
  if (in_window(p) != on_device) {
    return refuse(ACL_ERROR_RT_PARAM_INVALID, "the kind of the copy does not fit where its ends are");
  }
  if (!on_device) {
    const auto at = reinterpret_cast<number>(p);
    if (is_pinned(p, 1) && !is_pinned(p, size)) {
      return violate(ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds", std::string{which} + " goes beyond its host block");
    }
    const auto gone = the().ghosts.upper_bound(at);
    if (!is_pinned(p, 1) && gone != the().ghosts.begin() &&
        at - std::prev(gone)->first < std::prev(gone)->second.size) {
      return violate(ACL_ERROR_RT_PARAM_INVALID, "use_after_free",
                     std::string{which} + " lies in a host block that was given back");
    }
    return ACL_SUCCESS;
  }
  const finding fault = find_fault(p, size);
  if (fault.kind == nullptr) return ACL_SUCCESS;
  return violate(ACL_ERROR_RT_PARAM_INVALID, fault.kind, std::string{which} + ": " + fault.text);
}

// Completes the kind; the caller holds the mutex.
aclError check(copy_job& job) {
  if (job.to == nullptr || job.from == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "copy of a null pointer");
  if (job.kind < ACL_MEMCPY_HOST_TO_HOST || job.kind > ACL_MEMCPY_DEFAULT) {
    return refuse(ACL_ERROR_INVALID_PARAM, "kind of copy");
  }
  if (job.kind == ACL_MEMCPY_DEFAULT) {
    job.kind = in_window(job.to) ? (in_window(job.from) ? ACL_MEMCPY_DEVICE_TO_DEVICE : ACL_MEMCPY_HOST_TO_DEVICE)
                                 : (in_window(job.from) ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_HOST_TO_HOST);
  }
  // Rows that begin behind their host block would each be pageable memory.
  if (job.height > 1) {
    const auto goes_beyond = [&](const void* host, std::size_t pitch) {
      return is_pinned(host, 1) && !is_pinned(host, (job.height - 1) * pitch + job.width);
    };
    if ((!job.to_device() && goes_beyond(job.to, job.to_pitch)) ||
        (!job.from_device() && goes_beyond(job.from, job.from_pitch))) {
      return violate(ACL_ERROR_RT_PARAM_INVALID, "out_of_bounds", "the rows of a copy go beyond their host block");
    }
  }
  for (std::size_t row = 0; row < job.height; ++row) {
    const void* const to = static_cast<std::byte*>(job.to) + row * job.to_pitch;
    const void* const from = static_cast<const std::byte*>(job.from) + row * job.from_pitch;
    if (const aclError code = check_end(to, job.width, job.to_device(), "the destination"); code != ACL_SUCCESS) {
      return code;
    }
    if (const aclError code = check_end(from, job.width, job.from_device(), "the source"); code != ACL_SUCCESS) {
      return code;
    }
  }
  job.to_bytes = static_cast<std::byte*>(worker_address(job.to));
  job.from_bytes = static_cast<const std::byte*>(worker_address(job.from));
  return ACL_SUCCESS;
}

aclError copy_now(copy_job job) {
  std::unique_lock lock{the().mutex};
  if (const aclError code = check(job); code != ACL_SUCCESS) return code;
  host_uses(job.uses());
  lock.unlock();
  job.run();
  return ACL_SUCCESS;
}

aclError copy_later(copy_job job, const std::shared_ptr<stream_state>& s) {
  std::unique_lock lock{the().mutex};
  if (const aclError code = check(job); code != ACL_SUCCESS) return code;
  if (job.kind == ACL_MEMCPY_HOST_TO_HOST) {
    return refuse(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "no asynchronous copy from host to host");
  }
  const bool strict = the().how.strict;
  if (reinterpret_cast<number>(job.to) % copy_alignment != 0 ||
      reinterpret_cast<number>(job.from) % copy_alignment != 0) {
    if (job.kind == ACL_MEMCPY_DEVICE_TO_DEVICE) {
      return refuse(ACL_ERROR_RT_ADDR_UNALIGNED, "copy on the device between addresses that are no multiples of 64");
    }
    if (strict) violate("copy_alignment", "an end of the copy is no multiple of 64, as CANN 8.0 asks for");
  }
  const void* const host = job.to_device() ? (job.from_device() ? nullptr : job.from) : job.to;
  const bool pageable = host != nullptr && !is_pinned(host, job.width);
  if (pageable && !strict) {  // waits for the stream; the copy is done when the call returns
    lock.unlock();
    const aclError code = wait_for_all(s, -1);
    if (code != ACL_SUCCESS) return refuse(code, "queued work failed");
    return copy_now(job);
  }
  enqueue(s, job.uses(), [job, pageable]() -> aclError {
    if (pageable) return ACL_ERROR_RT_SYS_DMA;
    job.run();
    return ACL_SUCCESS;
  });
  return ACL_SUCCESS;
}

aclError check_fill(void* p, std::size_t room, std::size_t size) {
  if (p == nullptr) return refuse(ACL_ERROR_INVALID_PARAM, "fill of a null pointer");
  if (size > room) return refuse(ACL_ERROR_RT_PARAM_INVALID, "fill beyond the room");
  return check_end(p, size, in_window(p), "the filled range");  // pinned memory may be filled too
}

template <class Fill>
aclError fill_now(void* p, std::size_t room, std::size_t size, Fill fill) {
  void* bytes = nullptr;
  {
    const std::lock_guard lock{the().mutex};
    if (const aclError code = check_fill(p, room, size); code != ACL_SUCCESS) return code;
    host_uses({{p, size, true, "the filled range"}});
    bytes = worker_address(p);
  }
  const std::lock_guard lock{the().bytes_mutex};
  fill(bytes);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t size, aclrtMemcpyKind kind) {
  NEEDS_CONTEXT;
  if (size > room) return refuse(ACL_ERROR_RT_PARAM_INVALID, "copy beyond the room");
  return copy_now({to, from, 0, 0, size, 1, kind});
}
aclError aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t size, aclrtMemcpyKind kind,
                          aclrtStream s) {
  NEEDS_STREAM(s);
  if (size > room) return refuse(ACL_ERROR_RT_PARAM_INVALID, "copy beyond the room");
  return copy_later({to, from, 0, 0, size, 1, kind}, stream_);
}
aclError aclrtMemcpy2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                       std::size_t height, aclrtMemcpyKind kind) {
  NEEDS_CONTEXT;
  if (width > to_pitch || width > from_pitch) return refuse(ACL_ERROR_RT_PARAM_INVALID, "rows beyond their pitch");
  return copy_now({to, from, to_pitch, from_pitch, width, height, kind});
}
aclError aclrtMemcpy2dAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                            std::size_t height, aclrtMemcpyKind kind, aclrtStream s) {
  NEEDS_STREAM(s);
  if (width > to_pitch || width > from_pitch) return refuse(ACL_ERROR_RT_PARAM_INVALID, "rows beyond their pitch");
  return copy_later({to, from, to_pitch, from_pitch, width, height, kind}, stream_);
}
aclError aclrtMemset(void* p, std::size_t room, std::int32_t value, std::size_t size) {
  NEEDS_CONTEXT;
  return fill_now(p, room, size, [&](void* bytes) { std::memset(bytes, value, size); });
}
aclError aclrtMemsetD32(void* p, std::size_t room, std::uint32_t value, std::size_t words) {
  NEEDS_CONTEXT;
  if (words > SIZE_MAX / sizeof value) return refuse(ACL_ERROR_RT_PARAM_INVALID, "fill beyond the room");
  return fill_now(p, room, words * sizeof value, [&](void* bytes) {
    for (std::size_t i = 0; i < words; ++i) {
      std::memcpy(static_cast<std::byte*>(bytes) + i * sizeof value, &value, sizeof value);
    }
  });
}
aclError aclrtMemsetAsync(void* p, std::size_t room, std::int32_t value, std::size_t size, aclrtStream s) {
  NEEDS_STREAM(s);
  const std::lock_guard lock{the().mutex};
  if (const aclError code = check_fill(p, room, size); code != ACL_SUCCESS) return code;
  enqueue(stream_, {{p, size, true, "the filled range"}}, [=, bytes = worker_address(p)] {
    const std::lock_guard guard{the().bytes_mutex};
    std::memset(bytes, value, size);
    return ACL_SUCCESS;
  });
  return ACL_SUCCESS;
}

}  // extern "C"
