#include "device/ascend/kind.hpp"

#include <iterator>
#include <map>
#include <mutex>

#include "device/driver.hpp"

namespace berth::detail::ascend {
namespace {

constexpr const char* names =
    "ascend: the device's number follows the colon, then by wish media, or align32 or cached, and huge, small, p2p, "
    "highband or lowband";
constexpr int bandwidths = low_bandwidth | high_bandwidth;

struct noted_block {
  bytes size = 0;
  memory_choice::kind of = memory_choice::device;
};

std::mutex mutex;
std::map<std::uintptr_t, noted_block>& noted() {
  static auto* const blocks = new std::map<std::uintptr_t, noted_block>;  // devices may end after statics
  return *blocks;
}

// The second version of media has a library of its own and is the only one on the 950; all other chips have the first.
bool uses_second(const functions& acl) noexcept {
  return acl.hi_mpi_dvpp_malloc != nullptr && acl.hi_mpi_dvpp_free != nullptr;
}

}  // namespace

result<memory_choice> parse_choice(std::string_view argument) {
  const auto comma = argument.find(',');
  const auto number = device_number(argument.substr(0, comma), names);
  if (!number) return number.error();
  memory_choice choice{.ordinal = *number};
  bool pages = false;
  bool peers = false;
  std::string_view rest = comma == std::string_view::npos ? std::string_view{} : argument.substr(comma);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(word.size());
    const auto kind = word == "media"     ? memory_choice::media
                      : word == "align32" ? memory_choice::align32
                      : word == "cached"  ? memory_choice::cached
                                          : memory_choice::device;
    if (kind != memory_choice::device && choice.of == memory_choice::device) {
      choice.of = kind;
    } else if ((word == "huge" || word == "small") && !pages) {
      choice.policy += word == "huge" ? huge_pages_only : small_pages_only;
      pages = true;
    } else if (word == "p2p" && !peers) {
      choice.policy += for_peers;
      peers = true;
    } else if ((word == "highband" || word == "lowband") && (choice.policy & bandwidths) == 0) {
      choice.policy |= word == "highband" ? high_bandwidth : low_bandwidth;
    } else {
      return error{errc::invalid_input, names};
    }
  }
  if (choice.of == memory_choice::media && (pages || peers)) {
    return error{errc::invalid_input, "ascend: the driver chooses the pages of media memory"};
  }
  if (choice.of != memory_choice::device && (choice.policy & bandwidths) != 0) {
    return error{errc::invalid_input, "ascend: highband and lowband are of the first kind of memory only"};
  }
  return choice;
}

const char* missing(const functions& acl, const memory_choice& choice) noexcept {
  if ((choice.policy & bandwidths) != 0 && acl.aclrtMallocWithCfg == nullptr) {
    return "ascend: this CANN has no aclrtMallocWithCfg";
  }
  switch (choice.of) {
    case memory_choice::align32:
      return acl.aclrtMallocAlign32 != nullptr ? nullptr : "ascend: this CANN has no aclrtMallocAlign32";
    case memory_choice::cached:
      return acl.aclrtMallocCached != nullptr ? nullptr : "ascend: this CANN has no aclrtMallocCached";
    case memory_choice::media: {
      const bool first = acl.acldvppMalloc != nullptr && acl.acldvppFree != nullptr;
      const bool second = acl.hi_mpi_dvpp_malloc != nullptr && acl.hi_mpi_dvpp_free != nullptr;
      return first || second ? nullptr : "ascend: this CANN has no library for media (libacl_dvpp.so)";
    }
    default: return nullptr;
  }
}

const rules::placement& rules_of(memory_choice::kind k, bool is_950) noexcept {
  if (k == memory_choice::media) return rules::ascend_310p_dvpp();  // on every chip
  if (is_950) return rules::ascend_950_device();
  return k == memory_choice::align32 ? rules::ascend_align32() : rules::ascend_310p_device();
}

status allocate(const functions& acl, const memory_choice& choice, void** block, bytes size) noexcept {
  switch (choice.of) {
    case memory_choice::align32: return acl.aclrtMallocAlign32(block, size, choice.policy);
    case memory_choice::cached: return acl.aclrtMallocCached(block, size, choice.policy);
    case memory_choice::media:
      return uses_second(acl) ? acl.hi_mpi_dvpp_malloc(static_cast<std::uint32_t>(choice.ordinal), block, size)
                              : acl.acldvppMalloc(block, size);
    default:
      return (choice.policy & bandwidths) != 0 ? acl.aclrtMallocWithCfg(block, size, choice.policy, nullptr)
                                               : acl.aclrtMalloc(block, size, choice.policy);
  }
}

status free(const functions& acl, const memory_choice& choice, void* block) noexcept {
  if (choice.of != memory_choice::media) return acl.aclrtFree(block);
  return uses_second(acl) ? acl.hi_mpi_dvpp_free(block) : acl.acldvppFree(block);
}

void note_block(void* block, bytes size, memory_choice::kind of) {
  const std::lock_guard lock{mutex};
  noted()[reinterpret_cast<std::uintptr_t>(block)] = {size, of};
}

void forget_block(void* block) noexcept {
  const std::lock_guard lock{mutex};
  noted().erase(reinterpret_cast<std::uintptr_t>(block));
}

std::optional<memory_choice::kind> noted_kind(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock{mutex};
  const auto after = noted().upper_bound(at);
  if (after == noted().begin()) return {};
  const auto& [start, block] = *std::prev(after);
  if (at - start >= block.size) return {};
  return block.of;
}

}  // namespace berth::detail::ascend
