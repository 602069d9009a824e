// A search for a layout within a capacity, one slice of search nodes at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/model/instance.hpp"

namespace berth::plan {

enum class search_status : std::uint8_t { found, exhausted, paused };

class seeker {
 public:
  virtual ~seeker() = default;

  // Spends up to `nodes` more nodes. found: offsets() is a layout within the capacity. exhausted: there is none.
  [[nodiscard]] virtual search_status run(std::uint64_t nodes) = 0;
  [[nodiscard]] virtual std::uint64_t nodes() const noexcept = 0;
  [[nodiscard]] virtual const std::vector<units>& offsets() const noexcept = 0;

 protected:
  seeker() = default;
  seeker(const seeker&) = default;
  seeker& operator=(const seeker&) = default;
};

}  // namespace berth::plan
