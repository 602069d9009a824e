// Rules of AscendCL's blocks and of the parts that a program cuts from them, by function and chip.
//
// The rows follow the documents, never Berth's own table (src/rules/placement.cpp), so that a test may compare the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ascend_simulator {

enum class family : std::uint8_t { device, aligned32, cached, media, pinned };  // by the allocating function

inline constexpr std::size_t part_unit = 32;  // sizes of blocks and of parts are rounded up to a multiple of it
inline constexpr std::size_t chip_count = 6;

// Returns the chip's column in the table below, or chip_count.
[[nodiscard]] std::size_t find_chip(std::string_view name);

struct suballocation {
  std::string_view function;
  family of;
  std::size_t start;                     // a part starts at a multiple of it
  std::size_t behind_block[chip_count];  // bytes that the function adds to its block, by find_chip()
  std::size_t behind_part[chip_count];   // bytes that a part keeps behind its rounded size
};

// Returns the function's row, or null.
[[nodiscard]] const suballocation* find_suballocation(std::string_view function);
// Returns the row that holds for every block of the family.
[[nodiscard]] const suballocation& suballocation_of(family of);

// Returns the bytes of `size` rounded up to the unit with `behind` added; 0 if that exceeds a size.
[[nodiscard]] constexpr std::size_t room_for(std::size_t size, std::size_t behind) {
  if (size > SIZE_MAX - part_unit - behind) return 0;
  return (size + part_unit - 1) / part_unit * part_unit + behind;
}

}  // namespace ascend_simulator
