// The recorder: listens to the event hook and keeps what pools give out and get back, so that leaks have a file and a
// line and a run can be replayed and looked at.
//
// Each thread writes records of 32 bytes into chunks of its own (core/hook.hpp), without a lock, a clock or a call: it
// reads the clock once in 256 events, and once after every tick (4 ms) of a thread that the recorder keeps while it
// listens. A full chunk costs a lock.
//
// The records' memory is `capacity`, made present by the first start(); half a MiB for folding comes beside it. When it
// is full, the oldest history is folded: blocks that came and went in it are forgotten and counted, blocks still alive
// stay, so that leaks are right however long the run is. Only where that does not help, because the records of live
// blocks alone fill a quarter of it, or more threads record at once than it has chunks (128 of 1 MiB, 1024 from 8 MiB
// on), records are dropped, and reports say how many; when live blocks have become fewer it goes on.
//
// One recorder at a time listens (contract). It must be stopped, and no thread be inside an allocation, before it is
// destroyed. All members are thread-safe; those that read cost a sort of all records. Blocks are told apart by their
// address alone. Places are kept as pointers to the program's texts: read them before a library that they lie in is
// unloaded. The child of a fork goes on with what there was, and reads the clock once in 256 events only.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/core/hook.hpp"
#include "berth/trace/log.hpp"
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

  // Everything that is kept, in the order of time: exact for each address, and within a thread but where blocks of one
  // address went to and fro between threads in a tick; between threads as near as the stamps are. Of such blocks those
  // for which no place is found count as forgotten. Frees of blocks given out before the start are left out. `ended` if
  // not listening.
  [[nodiscard]] snapshot take() const;
  // The same as an allocation log.
  [[nodiscard]] log to_log() const;
  // Blocks given out and not given back, oldest first. Exact where dropped() is 0, of what came back while it listened,
  // but that a block which another thread got in the tick in which one of its size from before the start came back
  // there may be taken for that one.
  [[nodiscard]] std::vector<leak> leaks() const;
  // "SIZE bytes at ADDRESS, asked for at FILE:LINE" for each, then the sum; says where records were dropped. Where
  // there is no line, the name alone.
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
