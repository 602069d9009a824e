// The recorder: listens to the event hook and keeps the blocks that pools give out and get back. Leaks thus have a file
// and a line, and a run can be replayed and looked at.
//
// Each thread writes records of 32 bytes into chunks of its own (core/hook.hpp), without a lock, a clock or a call. It
// reads the clock once in 256 events. It also reads it once after every tick (4 ms) of a thread that the recorder keeps
// while it listens. A full chunk costs a lock.
//
// The records take `capacity` bytes, made present by the first start(), and half a MiB for folding. A full recorder
// folds the oldest history: it forgets and counts blocks that came and went in it. Blocks still alive stay, so that
// leaks are right however long the run is. It drops records, and reports say how many, if folding does not help. It
// does not if live blocks alone fill a quarter of it, or if there are more recording threads than chunks (128 of 1 MiB,
// 1024 from 8 MiB on). It goes on when fewer blocks live.
//
// One recorder at a time listens (contract). It must be stopped, and no thread be inside an allocation, before it is
// destroyed. All members are thread-safe; those that read cost a sort of all records. Blocks are told apart by their
// address alone. Places are kept as pointers to the program's texts: read them before their library is unloaded. The
// child of a fork goes on with the records so far, and reads the clock once in 256 events only.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/hook.hpp"
#include "berth/trace/snapshot.hpp"

namespace berth::trace {

struct leak {
  std::uint64_t address = 0;
  bytes size = 0;
  std::uint32_t stream = 0;
  source_location site;
};

class recorder {
 public:
  explicit recorder(bytes capacity = bytes{64} << 20);  // 32 bytes an event; at least 1 MiB is taken
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;
  ~recorder();  // stops

  void start(source_location where = source_location::current());
  void stop() noexcept;

  // Returns all kept events in the order of time. The order is exact for each address and within a thread, unless
  // blocks of one address passed between threads several times in a tick. Between threads it is as exact as the stamps.
  // Such blocks count as forgotten if no place is found for them. Leaves out frees of blocks from before the start.
  // Sets `ended` if not listening.
  [[nodiscard]] snapshot take() const;
  // Returns the same as an allocation log.
  [[nodiscard]] log to_log() const;
  // Returns blocks given out and not given back, oldest first. Exact if dropped() is 0, for blocks that came back while
  // it listened. One exception: in some tick a block from before the start comes back, and another thread gets one of
  // its size there. The new block may then be taken for the old one.
  [[nodiscard]] std::vector<leak> leaks() const;
  // Returns "SIZE bytes at ADDRESS, asked for at FILE:LINE" for each, then the sum, and says whether records were
  // dropped. Gives the name alone if there is no line.
  [[nodiscard]] std::string leak_report() const;
  [[nodiscard]] std::uint64_t dropped() const noexcept;

 private:
  struct [[gnu::visibility("hidden")]] state;
  static void hear(void* context, const memory_event& event) noexcept;
  std::shared_ptr<state> state_;  // threads that have recorded hold it weakly
  hook hook_;
};

}  // namespace berth::trace
#pragma GCC visibility pop
