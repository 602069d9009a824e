// The Ascend device over AscendCL.
//
// It uses the default context of the device, so it shares memory and streams with other users in the process
// (torch_npu, aclnn). A thread may have any context current: every call sets the device's context and restores the
// other.
//
// Virtual memory: aclrtMapMem maps whole handles at offset 0 and aclrtUnmapMem takes the start of one mapping. Hence
// the granule_table, and one call per granule in both directions.
#include <limits>
#include <string>
#include <utility>

#include "device/ascend/kind.hpp"
#include "device/ascend/library.hpp"
#include "device/ascend/memory.hpp"
#include "device/ascend/queue.hpp"
#include "device/backend.hpp"
#include "device/driver.hpp"

namespace berth::detail {
namespace ascend {
namespace {

class ascend_device final : public device_backend {
 public:
  ascend_device(const functions& acl, memory_choice choice) noexcept
      : acl_{acl}, choice_{choice}, device_{choice.ordinal} {
    add_user();
  }
  ~ascend_device() override {
    if (!works_here()) return;
    if (context_ != nullptr && !was_reset()) acl_.aclrtResetDevice(device_);
    remove_user();
  }

  result<void> start(std::string_view argument) {
    context before = nullptr;
    if (acl_.aclrtGetCurrentContext(&before) != success) {
      before = nullptr;
      forget_text(acl_);
    }
    if (auto ok = checked(acl_, acl_.aclrtSetDevice(device_), "ascend: device"); !ok) return ok;
    context ours = nullptr;
    if (auto ok = checked(acl_, acl_.aclrtGetCurrentContext(&ours), "ascend: no context"); !ok) {
      acl_.aclrtResetDevice(device_);
      return ok;
    }
    context_ = ours;
    describe(argument);
    if (choice_.plain()) start_virtual_memory();  // its pieces are of that kind
    shared_.emplace(shared{acl_, context_, pinned_});
    if (before != nullptr) acl_.aclrtSetCurrentContext(before);
    return {};
  }

  result<void*> allocate(bytes size, memory_kind kind) override {
    const current_context current{acl_, context_};
    if (kind == memory_kind::pinned) return pinned_.allocate(size);
    void* block = nullptr;
    if (const status s = ascend::allocate(acl_, choice_, &block, size); s != success) {
      return failed_allocation(acl_, s, size);
    }
    if (choice_.plain()) return block;
    unnoted ours{acl_, choice_, block};
    note_block(block, size, choice_.of);
    return std::exchange(ours.block, nullptr);
  }
  void free(void* block, bytes, memory_kind kind) noexcept override {
    const current_context current{acl_, context_};
    if (kind == memory_kind::pinned) {
      pinned_.free(block);
    } else {
      if (!choice_.plain()) forget_block(block);
      ascend::free(acl_, choice_, block);
    }
  }
  result<void*> register_memory(void* memory, bytes size) override {
    const current_context current{acl_, context_};
    return pinned_.adopt(memory, size);
  }
  void unregister_memory(void* address, bytes) noexcept override {
    const current_context current{acl_, context_};
    pinned_.forget(address);
  }
  void* host_address(void* inside, memory_kind kind) noexcept override {
    return kind == memory_kind::pinned ? pinned_.host_address(inside) : nullptr;
  }

  result<void*> reserve(bytes size) override {
    const current_context current{acl_, context_};
    void* range = nullptr;
    // The kind of pages of the physical memory (physical_properties::hbm_huge).
    const status s = acl_.aclrtReserveMemAddress(&range, size, 0, nullptr, reserve_huge_pages);
    if (s != success) return failed_allocation(acl_, s, size);
    return range;
  }
  void release(void* range, bytes) noexcept override {
    const current_context current{acl_, context_};
    acl_.aclrtReleaseMemAddress(range);
  }

  result<std::uint64_t> create_physical(bytes size, physical_form form) override {
    const current_context current{acl_, context_};
    auto entry = granule_table::make(size, properties_.granule, form);
    auto& [each, handles] = entry.mapped();
    const physical_properties wanted = on_this_device();
    while (handles.size() * each < size) {
      physical one = nullptr;
      if (const status s = acl_.aclrtMallocPhysical(&one, each, &wanted, 0); s != success) {
        const error e = failed_allocation(acl_, s, size);
        for (const std::uint64_t made : handles) acl_.aclrtFreePhysical(as_physical(made));
        return e;
      }
      handles.push_back(reinterpret_cast<std::uintptr_t>(one));
    }
    return physicals_.add(std::move(entry));
  }
  result<std::uint64_t> split_physical(std::uint64_t handle, bytes, bytes at) override {
    return physicals_.split(handle, at);
  }
  void destroy_physical(std::uint64_t handle, bytes) noexcept override {
    const current_context current{acl_, context_};
    for (const std::uint64_t one : physicals_.take(handle)) acl_.aclrtFreePhysical(as_physical(one));
  }

  result<void> map(void* range, bytes size, std::uint64_t handle, bytes offset) override {
    const current_context current{acl_, context_};
    // The handle is not destroyed while it is mapped.
    const auto& [each, handles] = physicals_.find(handle);
    const std::uint64_t* piece = handles.data() + offset / each;
    auto* start = static_cast<std::byte*>(range);
    std::map<std::byte*, mapping> notes;  // made ahead, so that no step fails after the driver's success
    for (bytes at = 0; at < size; at += each) notes.emplace_hint(notes.end(), start + at, mapping{each, *piece++});
    for (const auto& [at, one] : notes) {
      if (auto ok = map_one(at, one); !ok) {
        for (const auto& [done, unused] : notes) {
          if (done < at) acl_.aclrtUnmapMem(done);
        }
        return ok;
      }
    }
    const std::lock_guard lock{mutex_};
    mapped_.merge(notes);
    return {};
  }
  result<void> unmap(void* range, bytes size) override {
    const current_context current{acl_, context_};
    auto* start = static_cast<std::byte*>(range);
    const std::lock_guard lock{mutex_};
    const auto first = mapped_.lower_bound(start);
    const auto last = mapped_.lower_bound(start + size);
    for (auto one = first; one != last; ++one) {
      auto ok = checked(acl_, acl_.aclrtUnmapMem(one->first), "ascend: unmap");
      if (ok) continue;
      // A failure leaves all pages mapped.
      while (one != first) {
        --one;
        (void)map_one(one->first, one->second);
      }
      return ok;
    }
    mapped_.erase(first, last);
    return {};
  }

  result<std::unique_ptr<backend_queue>> create_queue(std::shared_ptr<stream_clock>) override {
    return queue::create(*shared_);
  }
  result<std::unique_ptr<backend_queue>> wrap_queue(void* native, std::shared_ptr<stream_clock>) override {
    return queue::wrap(*shared_, static_cast<stream_handle>(native));
  }
  result<std::unique_ptr<backend_event>> create_event() override { return queue_event::create(*shared_); }
  [[nodiscard]] void* native() const noexcept override { return context_; }

 private:
  // Returns true if another user reset the device: then there is nothing left to reset.
  [[nodiscard]] bool was_reset() const noexcept {
    const current_context current{acl_, context_};
    context now = nullptr;
    const bool gone = acl_.aclrtGetCurrentContext(&now) != success;
    if (gone) forget_text(acl_);
    return gone;
  }
  static physical as_physical(std::uint64_t number) noexcept {
    return reinterpret_cast<physical>(static_cast<std::uintptr_t>(number));
  }
  struct mapping {
    bytes size;
    std::uint64_t piece;  // the driver's handle
  };
  result<void> map_one(void* address, const mapping& one) noexcept {
    return checked(acl_, acl_.aclrtMapMem(address, one.size, 0, as_physical(one.piece), 0), "ascend: map");
  }
  [[nodiscard]] physical_properties on_this_device() const noexcept {
    return {.location = {.id = static_cast<std::uint32_t>(device_)}};
  }

  void describe(std::string_view argument) {
    const char* chip = acl_.aclrtGetSocName != nullptr ? acl_.aclrtGetSocName() : nullptr;
    properties_.name.append("ascend:").append(argument);
    properties_.simulated = acl_.is_simulated;
    properties_.description.append(chip != nullptr ? chip : "Ascend")
        .append(acl_.is_simulated ? " of the simulator (simulator/ascend); no chip"
                                  : " through AscendCL; never tried on a chip yet");
    const bool is_950 = chip != nullptr && std::string_view{chip}.starts_with("Ascend950");
    properties_.rules = rules_of(choice_.of, is_950);
    if (choice_.plain()) say_other_kinds(argument);
    properties_.pinned_rules = rules::ascend_310p_device();  // on every chip
    std::size_t available = 0;
    std::size_t total = 0;
    if (acl_.aclrtGetMemInfo(hbm, &available, &total) == success) {
      properties_.total_memory = total;
      // All processes of a machine share a card; the driver itself uses some of it.
      if (available < total / 2) {
        constexpr std::size_t mib = std::size_t{1} << 20;
        properties_.notes.push_back("of its memory " + std::to_string(available / mib) + " MiB were free of " +
                                    std::to_string(total / mib) + " when it was opened: others hold the rest");
      }
    } else {
      forget_text(acl_);
    }
  }

  void say_other_kinds(std::string_view argument) {
    std::string names;
    for (const auto& [kind, name] :
         {std::pair{memory_choice::align32, "align32"}, std::pair{memory_choice::cached, "cached"},
          std::pair{memory_choice::media, "media"}}) {
      if (missing(acl_, {.of = kind}) != nullptr) continue;
      names.append(names.empty() ? "other kinds of memory: " : ", ").append("ascend:").append(argument);
      names.append(",").append(name);
    }
    if (!names.empty()) properties_.notes.push_back(std::move(names));
  }

  void start_virtual_memory() noexcept {
    if (!acl_.has_virtual_memory()) return;
    physical_properties wanted = on_this_device();
    std::size_t granule = 0;
    if (acl_.aclrtMemGetAllocationGranularity(&wanted, granularity_minimum, &granule) != success || granule == 0) {
      forget_text(acl_);
      return;
    }
    properties_.virtual_memory = true;
    properties_.granule = granule;
    properties_.max_mappings = std::numeric_limits<std::size_t>::max();  // no limit is documented
  }

  // Freed to the driver unless it is taken out: host memory to record it may be lacking.
  struct unnoted {
    const functions& acl;
    const memory_choice& choice;
    void* block;
    ~unnoted() {
      if (block != nullptr) ascend::free(acl, choice, block);
    }
  };

  const functions& acl_;
  const memory_choice choice_;
  const std::int32_t device_;
  context context_ = nullptr;
  host_memory pinned_{acl_, book};
  std::optional<shared> shared_;
  granule_table physicals_;
  std::mutex mutex_;  // guards the fields below
  std::map<std::byte*, mapping> mapped_;
};

}  // namespace
}  // namespace ascend

result<std::shared_ptr<device_backend>> open_ascend(std::string_view argument) {
  const auto choice = ascend::parse_choice(argument);
  if (!choice) return choice.error();
  const auto loaded = ascend::load();
  if (!loaded) return loaded.error();
  const ascend::functions& acl = **loaded;
  std::uint32_t count = 0;
  if (const ascend::status s = acl.aclrtGetDeviceCount(&count); s != ascend::success) {
    return ascend::failure(acl, s, "ascend: devices");
  }
  if (static_cast<std::uint32_t>(choice->ordinal) >= count) {
    return error{errc::no_such_device, "ascend: no device of this number", static_cast<std::uint64_t>(choice->ordinal)};
  }
  if (const char* why = ascend::missing(acl, *choice); why != nullptr) return error{errc::unsupported, why};
  auto opened = std::make_shared<ascend::ascend_device>(acl, *choice);
  if (auto started = opened->start(argument); !started) return started.error();
  opened->probe_virtual_memory();
  return std::shared_ptr<device_backend>{std::move(opened)};
}

}  // namespace berth::detail
