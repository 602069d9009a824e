#include "suballocation.hpp"

#include <algorithm>
#include <iterator>

#include "ascend_simulator.h"
#include "world.hpp"

namespace ascend_simulator {
namespace {

constexpr std::string_view chip_names[chip_count] = {"310", "310P", "910", "A2", "A3", "950"};

// Sources: the application development guide's page on sub-allocation (CANN 5.0 to 8.0) for all functions. The pages of
// aclrtMalloc, aclrtMallocAlign32 and aclrtMallocCached (CANN 9.1) exempt the 950 from the bytes behind a part. The
// page of hi_mpi_dvpp_malloc (CANN 6.0) has the bytes behind its block. No page exempts the 950's media or pinned
// memory. acldvppMalloc is missing on the 950, whose column there is that of hi_mpi_dvpp_malloc.
constexpr suballocation suballocations[] = {
    // function, family, start; behind a block on 310, 310P, 910, A2, A3 and 950; behind a part on the same
    {"aclrtMalloc", family::device, 64, {32, 32, 32, 32, 32, 0}, {32, 32, 32, 32, 32, 0}},
    {"aclrtMallocAlign32", family::aligned32, 64, {0, 0, 0, 0, 0, 0}, {32, 32, 32, 32, 32, 0}},
    {"aclrtMallocCached", family::cached, 64, {32, 32, 32, 32, 32, 0}, {32, 32, 32, 32, 32, 0}},
    {"acldvppMalloc", family::media, 128, {32, 32, 32, 32, 32, 32}, {32, 32, 32, 32, 32, 32}},
    {"hi_mpi_dvpp_malloc", family::media, 128, {32, 32, 32, 32, 32, 32}, {32, 32, 32, 32, 32, 32}},
    {"aclrtMallocHost", family::pinned, 64, {0, 0, 0, 0, 0, 0}, {32, 32, 32, 32, 32, 32}},
};

}  // namespace

std::size_t find_chip(std::string_view name) {
  return static_cast<std::size_t>(std::distance(std::begin(chip_names), std::ranges::find(chip_names, name)));
}

const suballocation* find_suballocation(std::string_view function) {
  const auto* const row = std::ranges::find(suballocations, function, &suballocation::function);
  return row != std::end(suballocations) ? row : nullptr;
}

const suballocation& suballocation_of(family of) {
  return *std::ranges::find(suballocations, of, &suballocation::of);
}

}  // namespace ascend_simulator

using namespace ascend_simulator;

namespace {

struct holding_block {
  family of = family::device;  // also of mapped memory, whose pieces are of that kind
  number end = 0;              // 0: no block holds the address
};

// Finds the block of aclrtMallocHost or of a device that holds the address. The caller holds the mutex.
holding_block find_holding_block(const world& w, number at) {
  if (const auto after = w.blocks.upper_bound(at); after != w.blocks.begin()) {
    const auto& [start, one] = *std::prev(after);
    if (at - start < one.room) return {one.of, start + one.room};
  }
  if (const auto after = w.hosts.upper_bound(at); after != w.hosts.begin()) {
    const auto& [start, one] = *std::prev(after);
    if (one.given != nullptr && at - start < one.size) return {family::pinned, start + one.size};
  }
  return {};
}

// Records a violation if another part lies in the way. The caller holds the mutex.
void check_neighbours(const world& w, number at, std::size_t size, std::size_t room) {
  auto beside = w.parts.lower_bound(at);
  if (beside != w.parts.begin() && std::prev(beside)->first + std::prev(beside)->second.room > at) --beside;
  if (beside == w.parts.end() || beside->first >= at + room) return;
  const bool tail_only = beside->first + beside->second.size <= at || at + size <= beside->first;
  violate(tail_only ? "part_tail" : "part_overlap",
          "a part of " + std::to_string(size) + " bytes overlaps one of " + std::to_string(beside->second.size) +
              (tail_only ? " with the bytes that stay free behind the end" : " bytes"));
}

// Takes the range out of the freed ranges; the rest of each entry stays freed. The caller holds the mutex.
void take_again(world& w, number at, std::size_t size) {
  auto gone = w.given_back.lower_bound(at);
  if (gone != w.given_back.begin() && std::prev(gone)->first + std::prev(gone)->second.size > at) --gone;
  while (gone != w.given_back.end() && gone->first < at + size) {
    const auto [from, was] = *gone;
    gone = w.given_back.erase(gone);
    if (from < at) w.given_back[from] = {at - from, was.call, was.place};
    if (from + was.size > at + size) {
      w.given_back[at + size] = {from + was.size - at - size, was.call, was.place};
    }
  }
}

}  // namespace

extern "C" {

int ascend_simulator_get_part_rule(const char* chip, const char* function, ascend_simulator_part_rule* out) {
  const std::size_t on = find_chip(chip != nullptr ? chip : the().how.on.name);
  const suballocation* const row = find_suballocation(function);
  if (on == chip_count || row == nullptr) return 0;
  *out = {row->start, part_unit, row->behind_block[on], row->behind_part[on]};
  return 1;
}

void ascend_simulator_part_taken(const void* start, std::size_t size) {
  here = {__func__, __builtin_return_address(0)};
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto at = reinterpret_cast<number>(start);
  const holding_block in = find_holding_block(w, at);
  const suballocation& rule = suballocation_of(in.of);
  const std::size_t room = room_for(size, rule.behind_part[find_chip(w.how.on.name)]);
  if (at % rule.start != 0) violate("part_start", "a part starts at no multiple of " + std::to_string(rule.start));
  if (in.end != 0 && room > in.end - at) {
    violate("part_tail", "a part of " + std::to_string(size) + " bytes takes " + std::to_string(room) +
                             ", and its block ends before");
  }
  check_neighbours(w, at, size, room);
  take_again(w, at, size);
  w.parts[at] = {size, room};
}

void ascend_simulator_part_given_back(const void* start) {
  here = {__func__, __builtin_return_address(0)};
  world& w = the();
  const std::lock_guard lock{w.mutex};
  const auto at = reinterpret_cast<number>(start);
  const auto it = w.parts.find(at);
  if (it == w.parts.end()) {
    violate(w.given_back.count(at) != 0 ? "double_free" : "foreign_free", "no part starts there");
    return;
  }
  w.given_back[at] = {it->second.size, here.function, here.place};
  w.parts.erase(it);
}

}  // extern "C"
