// The kinds of AscendCL's device memory, chosen by the device's name: "ascend:0", "ascend:0,media", "ascend:0,align32",
// "ascend:0,cached". All but media take the pages too: "huge", "small" and "p2p". The first also takes the memory of a
// chip that has two: "highband", "lowband".
#pragma once

#include <optional>
#include <string_view>

#include "berth/rules/placement.hpp"
#include "device/ascend/library.hpp"

namespace berth::detail::ascend {

struct memory_choice {
  enum kind : std::uint8_t { device, align32, cached, media };
  int ordinal = 0;
  kind of = device;
  int policy = huge_pages_first;
  [[nodiscard]] bool plain() const noexcept { return of == device && policy == huge_pages_first; }
};

// Errors: invalid_input (no such name).
[[nodiscard]] result<memory_choice> parse_choice(std::string_view argument);
// Returns null if this CANN and this chip support it, else the missing part.
[[nodiscard]] const char* missing(const functions& acl, const memory_choice& choice) noexcept;
[[nodiscard]] const rules::placement& rules_of(memory_choice::kind k, bool is_950) noexcept;
[[nodiscard]] status allocate(const functions& acl, const memory_choice& choice, void** block, bytes size) noexcept;
status free(const functions& acl, const memory_choice& choice, void* block) noexcept;

// Records blocks of kinds other than the plain one. AscendCL cannot tell their kind by address, but copies between
// memory of several kinds need it. Thread-safe.
void note_block(void* block, bytes size, memory_choice::kind of);
void forget_block(void* block) noexcept;
[[nodiscard]] std::optional<memory_choice::kind> noted_kind(const void* address) noexcept;

}  // namespace berth::detail::ascend
