// The program's own accesses to pinned memory that queued work still uses: a result read before anyone waited, or a
// staging buffer that is written while a copy from it is queued.
//
// Pages in the range that hold no other block are protected: against every access if the work writes them, against
// writes if it reads them. The fault is the report, and the page is open again. Workers use a second mapping of the
// block. A page that holds other bytes of the block too stays open. There the bytes that are read are compared at the
// end.
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "world.hpp"

namespace ascend_simulator {
namespace {

struct range {
  number start, end;
  [[nodiscard]] bool empty() const { return start >= end; }
  [[nodiscard]] range cut(range by) const { return {std::max(start, by.start), std::min(end, by.end)}; }
};
range range_of(const pinned_use& u) {
  return {u.start, u.start + u.size};
}

// Returns the pinned block that holds the address, or an empty range.
range block_at(number at) {
  const auto& hosts = the().hosts;
  const auto after = hosts.upper_bound(at);
  if (after == hosts.begin()) return {};
  const auto& [start, block] = *std::prev(after);
  if (block.given == nullptr || at - start >= block.size) return {};
  return {start, start + block.size};
}

// Returns the pages that hold no byte of the block beyond the used range.
range whole_pages(range used, range block) {
  const number first = used.start == block.start ? used.start / page * page : (used.start + page - 1) / page * page;
  const number last = used.end == block.end ? (used.end + page - 1) / page * page : used.end / page * page;
  return {first, std::max(first, last)};
}

void protect(const pinned_use& u) {
  const range pages = whole_pages(range_of(u), block_at(u.start));
  if (pages.empty()) return;
  mprotect(reinterpret_cast<void*>(pages.start), pages.end - pages.start, u.writes ? PROT_NONE : PROT_READ);
}

// Opens the pages of this range except those that other uses still protect. Writes protect more, so they come last.
void open_pages(range gone) {
  const range pages{gone.start / page * page, (gone.end + page - 1) / page * page};
  mprotect(reinterpret_cast<void*>(pages.start), pages.end - pages.start, PROT_READ | PROT_WRITE);
  for (const bool writes : {false, true}) {
    for (const pinned_use& u : the().pinned_uses) {
      if (u.writes == writes && !range_of(u).cut(pages).empty()) protect(u);
    }
  }
}

void report_early(const pinned_use& u, const void* place) {
  const call_site kept = std::exchange(here, {u.by.call, place});
  violate("host_race", u.writes ? "the program touches pinned memory that this call, of " + place_of(u.by.place) +
                                      ", need not have written yet"
                                : "the program changes pinned memory that this call, of " + place_of(u.by.place) +
                                      ", need not have read yet");
  here = kept;
}

bool changed(const pinned_use& u) {
  return std::any_of(u.before.begin(), u.before.end(), [](const auto& piece) {
    return std::memcmp(worker_address(reinterpret_cast<void*>(piece.first)), piece.second.data(),
                       piece.second.size()) != 0;
  });
}

// Ends the uses for which `over` is true. Their bytes are compared if `compares`.
template <class Over>
void end_uses(bool compares, Over over) {
  auto& all = the().pinned_uses;
  const auto rest = std::stable_partition(all.begin(), all.end(), [&](const pinned_use& u) { return !over(u); });
  std::vector<pinned_use> gone{std::make_move_iterator(rest), std::make_move_iterator(all.end())};
  all.erase(rest, all.end());
  for (const pinned_use& u : gone) {
    open_pages(range_of(u));
    if (compares && changed(u)) report_early(u, u.by.place);
  }
}

}  // namespace

void watch(const use& one, const access& by) {
  world& w = the();
  const auto start = reinterpret_cast<number>(one.start);
  if (in_window(one.start) || one.size == 0) return;
  const range block = block_at(start);
  if (block.empty()) return;
  const range used = range{start, start + one.size}.cut(block);
  if (one.writes) {  // queued work, not the program, changes these bytes
    for (pinned_use& u : w.pinned_uses) {
      if (!range_of(u).cut(used).empty()) u.before.clear();
    }
  }
  if (w.host_functions.use_count() > 1) return;
  pinned_use made{used.start, used.end - used.start, one.writes, by, {}};
  if (!one.writes && !w.used.look(used.start, made.size, w.host, false)) {
    const range pages = whole_pages(used, block);
    const range outside = pages.empty() ? range{used.end, used.end} : pages;
    for (const range edge : {range{used.start, std::min(outside.start, used.end)}, range{outside.end, used.end}}) {
      if (edge.empty()) continue;
      const auto* const bytes = static_cast<const std::byte*>(worker_address(reinterpret_cast<void*>(edge.start)));
      made.before.emplace_back(edge.start, std::vector<std::byte>{bytes, bytes + (edge.end - edge.start)});
    }
  }
  w.pinned_uses.push_back(std::move(made));
  open_pages(used);
}

void host_learns(const order& known) {
  join(the().host, known);
  if (the().pinned_uses.empty()) return;
  end_uses(true, [](const pinned_use& u) { return knows(the().host, u.by.when); });
}

void unwatch(number at, std::size_t size) {
  end_uses(false, [&](const pinned_use& u) { return !range_of(u).cut({at, at + size}).empty(); });
}

bool touched_early(number at, const void* instruction, const void* caller) {
  const std::lock_guard lock{the().mutex};
  if (block_at(at).empty()) return false;
  Dl_info found{};
  const bool of_libc = dladdr(instruction, &found) != 0 && found.dli_fname != nullptr &&
                       std::strstr(found.dli_fname, "/libc.so") != nullptr;
  const auto touched = [at](const pinned_use& u) { return at - u.start < u.size; };
  const auto& all = the().pinned_uses;
  if (const auto first = std::find_if(all.begin(), all.end(), touched); first != all.end()) {
    report_early(*first, of_libc ? caller : instruction);
  }
  end_uses(false, touched);
  open_pages({at, at + 1});  // another thread may have ended it meanwhile
  return true;
}

}  // namespace ascend_simulator
