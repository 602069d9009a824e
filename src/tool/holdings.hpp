// The holders of memory at a moment, and the changes between two moments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "tool/trace_input.hpp"

namespace berth::tool {

// Blocks or buffers of one name.
struct holding {
  std::uint64_t blocks = 0;
  bytes size = 0;
};
using holdings = std::map<std::string, holding>;

struct peak {
  bytes size = 0;
  std::int64_t at = 0;  // its first time
};
// Frees and allocations at one time count together: lives are [lower, upper).
[[nodiscard]] peak peak_of(const std::vector<life>& all);

[[nodiscard]] holdings alive_at(const std::vector<life>& all, std::int64_t time);
// Returns the holdings at the end of a snapshot.
[[nodiscard]] holdings alive_in(const trace::snapshot& s);

using named_holding = std::pair<std::string, holding>;
[[nodiscard]] std::vector<named_holding> largest_first(const holdings& all);

struct change {
  std::string what;
  holding before;
  holding after;
  [[nodiscard]] std::int64_t grown() const noexcept {
    return static_cast<std::int64_t>(after.size) - static_cast<std::int64_t>(before.size);
  }
};
// Returns the holders with other bytes or other blocks than before, the greatest growth first. The growths add up to
// that of the whole.
[[nodiscard]] std::vector<change> compare(const holdings& before, const holdings& after);

// Returns "+4 KiB", "-4 KiB".
[[nodiscard]] std::string human_change(std::int64_t by);
// Prints a line each, at most so many, and how many more.
void print(const std::vector<change>& all, std::size_t most);

}  // namespace berth::tool
