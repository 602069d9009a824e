// Vulkan memory and timeline semaphores as a device of your own (berth/backend.h), on the first device there is.
//
// A block's address is a number: no process has memory at these addresses. `locate` gives the buffer, its memory and
// the offset, for a descriptor or a command. A queue of Berth's is a timeline: each submission waits for the one before
// and signals the next value. Its void* is a vulkan_backend::timeline*, and submit() runs your own commands on it.
//
// To share memory with another process or API, chain a VkExportMemoryAllocateInfo to the VkMemoryAllocateInfo below,
// and pass the handle of vkGetMemoryFdKHR (VK_KHR_external_memory_fd) with the offset.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "berth/backend.h"

// Vulkan returned `status`.
struct vulkan_error : std::runtime_error {
  explicit vulkan_error(VkResult s) : std::runtime_error{"Vulkan: error " + std::to_string(s)}, status{s} {}
  VkResult status;
};
inline void vulkan_check(VkResult status) {
  if (status < VK_SUCCESS) throw vulkan_error{status};
}

template <class Struct>
Struct vulkan_struct(VkStructureType type) {
  Struct made{};
  made.sType = type;
  return made;
}

class vulkan_backend {
 public:
  struct place {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceSize offset;
    std::byte* mapped;  // the CPU's address, or null
  };
  class timeline;

  // Throws vulkan_error if there is no device.
  vulkan_backend() : vulkan_backend{nullptr} {  // with that it is destroyed if the rest throws
    auto program = vulkan_struct<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    program.apiVersion = VK_API_VERSION_1_2;
    auto of = vulkan_struct<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    of.pApplicationInfo = &program;
    vulkan_check(vkCreateInstance(&of, nullptr, &instance_));
    std::uint32_t one = 1;
    vulkan_check(vkEnumeratePhysicalDevices(instance_, &one, &hardware_));
    if (one == 0) throw vulkan_error{VK_ERROR_INITIALIZATION_FAILED};

    const float priority = 1;
    auto queues = vulkan_struct<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queues.queueCount = 1;  // of family 0
    queues.pQueuePriorities = &priority;
    auto features = vulkan_struct<VkPhysicalDeviceTimelineSemaphoreFeatures>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
    features.timelineSemaphore = VK_TRUE;
    auto info = vulkan_struct<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queues;
    vulkan_check(vkCreateDevice(hardware_, &info, nullptr, &device_));
    vkGetDeviceQueue(device_, 0, 0, &queue_);
    vkGetPhysicalDeviceMemoryProperties(hardware_, &kinds_);
    vkGetPhysicalDeviceProperties(hardware_, &properties_);
  }
  vulkan_backend(const vulkan_backend&) = delete;
  vulkan_backend& operator=(const vulkan_backend&) = delete;
  // Runs after the device of functions() has closed.
  ~vulkan_backend() {
    if (device_ != nullptr) vkDestroyDevice(device_, nullptr);
    vkDestroyInstance(instance_, nullptr);
  }

  // The place of an address inside a live block.
  std::optional<place> locate(const void* address) {
    const std::lock_guard lock{mutex_};
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    auto it = blocks_.upper_bound(number);
    if (it == blocks_.begin() || number - (--it)->first >= it->second.size) return std::nullopt;
    const std::uint64_t offset = number - it->first;
    const block& b = it->second;
    return place{b.buffer, b.memory, offset, b.mapped == nullptr ? nullptr : b.mapped + offset};
  }

  VkDevice device() const { return device_; }
  std::size_t live_blocks() {
    const std::lock_guard lock{mutex_};
    return blocks_.size();
  }
  berth_backend functions();

 private:
  explicit vulkan_backend(std::nullptr_t) {}
  static void add_queues(berth_backend& b);
  struct block {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    std::byte* mapped = nullptr;
    std::uint64_t size = 0;
  };
  struct staging;

  block make_block(std::uint64_t size, bool host) {
    if (size > kinds_.memoryHeaps[0].size) throw vulkan_error{VK_ERROR_OUT_OF_DEVICE_MEMORY};
    block b{.size = size};
    try {
      auto info = vulkan_struct<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
      info.size = size;
      info.usage =
          VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
      vulkan_check(vkCreateBuffer(device_, &info, nullptr, &b.buffer));
      VkMemoryRequirements needs;
      vkGetBufferMemoryRequirements(device_, b.buffer, &needs);
      auto memory = vulkan_struct<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO);
      memory.allocationSize = needs.size;
      memory.memoryTypeIndex = kind_of(needs.memoryTypeBits, host);
      vulkan_check(vkAllocateMemory(device_, &memory, nullptr, &b.memory));
      vulkan_check(vkBindBufferMemory(device_, b.buffer, b.memory, 0));
      void* mapped = nullptr;
      if (host) vulkan_check(vkMapMemory(device_, b.memory, 0, VK_WHOLE_SIZE, 0, &mapped));
      b.mapped = static_cast<std::byte*>(mapped);
    } catch (...) {
      end_block(b);
      throw;
    }
    return b;
  }
  void end_block(const block& b) {
    vkDestroyBuffer(device_, b.buffer, nullptr);
    vkFreeMemory(device_, b.memory, nullptr);  // unmaps it too
  }
  std::uint32_t kind_of(std::uint32_t allowed, bool host) const {
    const VkMemoryPropertyFlags needs = host
                                            ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                                            : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    for (std::uint32_t i = 0; i < kinds_.memoryTypeCount; ++i) {
      if ((allowed >> i & 1) != 0 && (kinds_.memoryTypes[i].propertyFlags & needs) == needs) return i;
    }
    throw vulkan_error{VK_ERROR_FEATURE_NOT_PRESENT};
  }

  void allocate(std::uint64_t size, std::int32_t kind, void** out) {
    const block b = make_block(size, kind == BERTH_MEMORY_PINNED);
    const std::lock_guard lock{mutex_};
    blocks_.emplace(next_, b);
    *out = reinterpret_cast<void*>(next_);
    next_ += (size / apart + 2) * apart;
  }
  void free(void* start) {
    std::unique_lock lock{mutex_};
    const auto gone = blocks_.extract(reinterpret_cast<std::uintptr_t>(start));
    lock.unlock();
    if (gone) end_block(gone.mapped());
  }

  // Addresses are multiples of this, so an alignment up to it holds for the offset in the memory too.
  static constexpr std::uintptr_t apart = std::uintptr_t{2} << 20;
  VkInstance instance_ = nullptr;
  VkPhysicalDevice hardware_ = nullptr;
  VkDevice device_ = nullptr;
  VkQueue queue_ = nullptr;
  std::mutex submitting_;  // a VkQueue takes one submission at a time
  VkPhysicalDeviceMemoryProperties kinds_{};
  VkPhysicalDeviceProperties properties_{};
  std::mutex mutex_;  // guards the fields below
  std::map<std::uintptr_t, block> blocks_;
  std::uintptr_t next_ = std::uintptr_t{1} << (sizeof(void*) == 8 ? 48 : 28);  // addresses are never used twice
};

// A semaphore that lives as long as an event or a submission waits for it.
struct vulkan_semaphore {
  explicit vulkan_semaphore(VkDevice d) : device{d} {
    auto type = vulkan_struct<VkSemaphoreTypeCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    auto info = vulkan_struct<VkSemaphoreCreateInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO);
    info.pNext = &type;
    vulkan_check(vkCreateSemaphore(device, &info, nullptr, &handle));
  }
  vulkan_semaphore(const vulkan_semaphore&) = delete;
  vulkan_semaphore& operator=(const vulkan_semaphore&) = delete;
  ~vulkan_semaphore() { vkDestroySemaphore(device, handle, nullptr); }

  bool reached(std::uint64_t value) const {
    std::uint64_t now = 0;
    vulkan_check(vkGetSemaphoreCounterValue(device, handle, &now));
    return now >= value;
  }
  void wait(std::uint64_t value) const {
    auto info = vulkan_struct<VkSemaphoreWaitInfo>(VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO);
    info.semaphoreCount = 1;
    info.pSemaphores = &handle;
    info.pValues = &value;
    vulkan_check(vkWaitSemaphores(device, &info, UINT64_MAX));
  }
  VkDevice device;
  VkSemaphore handle = VK_NULL_HANDLE;
};

struct vulkan_event {
  std::shared_ptr<vulkan_semaphore> of;
  std::uint64_t value = 0;
};

// Memory of the host that a copy goes through.
struct vulkan_backend::staging {
  staging(vulkan_backend& b, std::uint64_t size) : of{b}, memory{b.make_block(size, true)} {}
  staging(const staging&) = delete;
  staging& operator=(const staging&) = delete;
  ~staging() { of.end_block(memory); }
  vulkan_backend& of;
  block memory;
};

class vulkan_backend::timeline {
 public:
  explicit timeline(vulkan_backend& of) : of_{of}, done_{std::make_shared<vulkan_semaphore>(of.device_)} {
    auto info = vulkan_struct<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
    vulkan_check(vkCreateCommandPool(of.device_, &info, nullptr, &commands_));
  }
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;
  // The work is done.
  ~timeline() { vkDestroyCommandPool(of_.device_, commands_, nullptr); }

  // Runs the commands that write(VkCommandBuffer) records, behind all submitted before, and behind `behind`.
  template <class Write>
  void submit(Write write, const vulkan_event* behind = nullptr, std::unique_ptr<staging> through = {}) {
    const std::lock_guard lock{mutex_};
    drop_done();
    auto info = vulkan_struct<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = commands_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    auto& job = jobs_.emplace_back();
    try {
      vulkan_check(vkAllocateCommandBuffers(of_.device_, &info, &job.commands));
      auto begin = vulkan_struct<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
      begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
      vulkan_check(vkBeginCommandBuffer(job.commands, &begin));
      write(job.commands);
      vulkan_check(vkEndCommandBuffer(job.commands));
      hand_over(job.commands, behind);
    } catch (...) {
      vkFreeCommandBuffers(of_.device_, commands_, 1, &job.commands);
      jobs_.pop_back();
      throw;
    }
    job.value = ++submitted_;
    job.through = std::move(through);
    if (behind != nullptr) job.behind = behind->of;
  }

  vulkan_event now() {
    const std::lock_guard lock{mutex_};
    return {done_, submitted_};
  }

  void copy(void* to, const void* from, std::uint64_t size) {
    const auto target = of_.locate(to);
    const auto source = of_.locate(from);
    if (target && source) return copy(target->buffer, target->offset, source->buffer, source->offset, size);
    if (target) return upload(*target, size, [&](void* into) { std::memcpy(into, from, size); });
    if (!source) {  // both are the host's
      synchronize();
      std::memcpy(to, from, size);
      return;
    }
    const staging through{of_, size};
    copy(through.memory.buffer, 0, source->buffer, source->offset, size);
    synchronize();
    std::memcpy(to, through.memory.mapped, size);
  }
  void fill(void* to, unsigned char value, std::uint64_t size) {
    const auto target = of_.locate(to);
    if (!target) throw vulkan_error{VK_ERROR_UNKNOWN};
    if (target->offset % 4 != 0 || size % 4 != 0) {
      return upload(*target, size, [&](void* into) { std::memset(into, value, size); });
    }
    submit([&](VkCommandBuffer commands) {
      vkCmdFillBuffer(commands, target->buffer, target->offset, size, value * 0x01010101U);
    });
  }
  void synchronize() {
    const vulkan_event last = now();
    last.of->wait(last.value);
  }

 private:
  struct submission {
    std::uint64_t value = 0;
    VkCommandBuffer commands = nullptr;
    std::unique_ptr<staging> through;
    std::shared_ptr<vulkan_semaphore> behind;
  };

  void copy(VkBuffer to, std::uint64_t at, VkBuffer from, std::uint64_t start, std::uint64_t size,
            std::unique_ptr<staging> through = {}) {
    const VkBufferCopy region{start, at, size};
    submit([&](VkCommandBuffer commands) { vkCmdCopyBuffer(commands, from, to, 1, &region); }, nullptr,
           std::move(through));
  }
  template <class Write>
  void upload(const place& to, std::uint64_t size, Write write) {
    auto through = std::make_unique<staging>(of_, size);
    write(through->memory.mapped);
    const VkBuffer from = through->memory.buffer;
    copy(to.buffer, to.offset, from, 0, size, std::move(through));
  }

  // Each submission waits for the one before: with that, memory is visible between them.
  void hand_over(VkCommandBuffer commands, const vulkan_event* behind) {
    const VkSemaphore before[] = {done_->handle, behind != nullptr ? behind->of->handle : VK_NULL_HANDLE};
    const std::uint64_t values[] = {submitted_, behind != nullptr ? behind->value : 0};
    const VkPipelineStageFlags all[] = {VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT};
    const std::uint64_t next = submitted_ + 1;
    const std::uint32_t count = behind != nullptr ? 2 : 1;
    auto points = vulkan_struct<VkTimelineSemaphoreSubmitInfo>(VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
    points.waitSemaphoreValueCount = count;
    points.pWaitSemaphoreValues = values;
    points.signalSemaphoreValueCount = 1;
    points.pSignalSemaphoreValues = &next;
    auto info = vulkan_struct<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    info.pNext = &points;
    info.waitSemaphoreCount = count;
    info.pWaitSemaphores = before;
    info.pWaitDstStageMask = all;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &done_->handle;
    const std::lock_guard lock{of_.submitting_};
    vulkan_check(vkQueueSubmit(of_.queue_, 1, &info, VK_NULL_HANDLE));
  }
  void drop_done() {
    while (!jobs_.empty() && done_->reached(jobs_.front().value)) {
      vkFreeCommandBuffers(of_.device_, commands_, 1, &jobs_.front().commands);
      jobs_.pop_front();
    }
  }

  vulkan_backend& of_;
  std::shared_ptr<vulkan_semaphore> done_;
  VkCommandPool commands_ = VK_NULL_HANDLE;
  std::mutex mutex_;  // guards the fields below
  std::uint64_t submitted_ = 0;
  std::deque<submission> jobs_;
};

// Returns the status of a function that may throw.
template <class Function>
int vulkan_run(Function f) {
  try {
    f();
    return BERTH_OK;
  } catch (const vulkan_error& e) {
    const bool memory = e.status == VK_ERROR_OUT_OF_DEVICE_MEMORY || e.status == VK_ERROR_OUT_OF_HOST_MEMORY;
    return memory ? int{BERTH_NO_MEMORY} : int{e.status};
  }
}

inline void vulkan_backend::add_queues(berth_backend& b) {
  b.create_queue = [](void* user, void** queue) {
    return vulkan_run([&] { *queue = new timeline{*static_cast<vulkan_backend*>(user)}; });
  };
  b.destroy_queue = [](void*, void* queue) { delete static_cast<timeline*>(queue); };
  b.synchronize_queue = [](void*, void* queue) {
    return vulkan_run([&] { static_cast<timeline*>(queue)->synchronize(); });
  };
  b.query_queue = [](void*, void* queue, int* done) {
    const vulkan_event last = static_cast<timeline*>(queue)->now();
    return vulkan_run([&] { *done = last.of->reached(last.value) ? 1 : 0; });
  };
  b.create_event = [](void*, void** event) { return vulkan_run([&] { *event = new vulkan_event; }); };
  b.destroy_event = [](void*, void* event) { delete static_cast<vulkan_event*>(event); };
  b.record = [](void*, void* queue, void* event) {
    return vulkan_run([&] { *static_cast<vulkan_event*>(event) = static_cast<timeline*>(queue)->now(); });
  };
  b.wait = [](void*, void* queue, void* event) {
    return vulkan_run(
        [&] { static_cast<timeline*>(queue)->submit([](VkCommandBuffer) {}, static_cast<vulkan_event*>(event)); });
  };
  b.query_event = [](void*, void* event, int* done) {
    const auto& e = *static_cast<vulkan_event*>(event);
    return vulkan_run([&] { *done = e.of->reached(e.value) ? 1 : 0; });
  };
  b.synchronize_event = [](void*, void* event) {
    const auto& e = *static_cast<vulkan_event*>(event);
    return vulkan_run([&] { e.of->wait(e.value); });
  };
  b.copy = [](void*, void* queue, void* to, const void* from, std::uint64_t size) {
    return vulkan_run([&] { static_cast<timeline*>(queue)->copy(to, from, size); });
  };
  b.fill = [](void*, void* queue, void* to, unsigned char value, std::uint64_t size) {
    return vulkan_run([&] { static_cast<timeline*>(queue)->fill(to, value, size); });
  };
}

inline berth_backend vulkan_backend::functions() {
  berth_backend b{};
  b.struct_size = sizeof b;
  b.user = this;
  b.name = "vulkan:0";
  b.description = properties_.deviceName;
  b.total_memory = kinds_.memoryHeaps[0].size;
  b.alignment = 256;  // the most that the offset of a storage buffer may need
  b.allocate = [](void* user, std::uint64_t size, std::int32_t kind, void** out) {
    return vulkan_run([&] { static_cast<vulkan_backend*>(user)->allocate(size, kind, out); });
  };
  b.free = [](void* user, void* start, std::uint64_t, std::int32_t) {
    static_cast<vulkan_backend*>(user)->free(start);
  };
  b.host_address = [](void* user, void* address) -> void* {
    const auto found = static_cast<vulkan_backend*>(user)->locate(address);
    return found ? found->mapped : nullptr;
  };
  add_queues(b);
  return b;
}
