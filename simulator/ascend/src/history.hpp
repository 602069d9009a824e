// The users of byte ranges, and the order that each stream and the host know. Vector clocks over byte ranges, after
// FastTrack (Flanagan and Freund, PLDI 2009), with ranges in the place of variables.
//
// The host counts as one. After one thread has waited, all threads know the result. So a missing order between two host
// threads is not detected. An order by the program's own locks is never reported as missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace ascend_simulator {

using number = std::uintptr_t;

// By stream, the position up to which its operations are known to come before.
using order = std::vector<std::uint64_t>;
void join(order& into, const order& other);

// The operation number `position` of a stream, from 1. Position 0: none.
struct moment {
  std::uint32_t stream = 0;
  std::uint64_t position = 0;
};
[[nodiscard]] bool knows(const order& o, moment m);

struct access {
  moment when;
  const char* call = nullptr;   // the function that enqueued it
  const void* place = nullptr;  // and its caller
};

struct conflict {
  access earlier;
  bool earlier_wrote;
};

class history {
 public:
  // Both record the access and return an earlier one that `known` does not know and that conflicts with it.
  [[nodiscard]] std::optional<conflict> read(number start, std::size_t size, const order& known, access by);
  [[nodiscard]] std::optional<conflict> write(number start, std::size_t size, const order& known, access by);
  // Does the same without a record: for accesses by the host itself, which all later work knows.
  [[nodiscard]] std::optional<conflict> look(number start, std::size_t size, const order& known, bool writes) const;
  // Returns an access that `known` does not know, a read or a write.
  [[nodiscard]] std::optional<access> unfinished(number start, std::size_t size, const order& known) const;
  void forget(number start, std::size_t size);

 private:
  struct cell {
    number end = 0;
    access write{};
    std::vector<access> reads{};  // one of each stream at most
  };
  void split(number at);
  std::map<number, cell> cells_;  // disjoint
};

}  // namespace ascend_simulator
