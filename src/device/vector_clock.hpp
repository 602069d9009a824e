// A vector clock (Fidge 1988, Mattern 1989): the epochs of streams that work is ordered behind.
//
// A stream has one, for work enqueued now. An event has a copy of the moment when it closed its epoch. A stream that
// waits for an event learns the event's epoch, and the event's whole clock.
//
// A few streams fit into the clock itself. The others lie in an epoch_tree, which copies share; they move there all at
// once when the clock is full. With a look-up or two, compare() finds the cases in which one of the two clocks contains
// the other. So most waits change one epoch (docs/decisions/0044-clocks.md has the proofs).
//
//   I1  An id is in ids_ at most once. Its epoch there is larger than the one in the tree.
//   I2  A clock that has (X, e) has all that X's clock had when X closed e, except streams that have ended.
//   I3  Unless origin_ is 0, let X be origin_ and e be origin_epoch_.
//       X's clock when X closed e, together with (X, e), has all of this clock.
//
// Cost: of() O(log streams). Copying O(1). Learning O(log streams) in rings, in pipelines, and between a stream and its
// worker streams. Else it is O(nodes of the trees that differ), a node for 16 streams of neighbouring ids. Thread
// safety: that of an object of the standard library. Copies may be used by different threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "device/epoch_tree.hpp"

namespace berth::detail {

class vector_clock {
 public:
  vector_clock() = default;
  // `ended` is the number of streams that have ended so far.
  explicit vector_clock(std::uint64_t ended) noexcept : swept_at_{ended} {}

  // Returns the last epoch of that stream that the clock has; 0: none.
  [[nodiscard]] std::uint64_t of(std::uint32_t id) const noexcept {
    const std::size_t place = place_of(id);
    return place < used_ ? epochs_[place] : tree_.of(id);
  }
  [[nodiscard]] std::size_t size() const noexcept { return used_ + tree_.size(); }
  // Notes the epoch of the clock's own stream in which the clock changed last.
  void set_learned(std::uint64_t epoch) noexcept { learned_ = epoch; }

  enum class lesson_kind : std::uint8_t {
    nothing,    // the clock has all of the event's
    one,        // the clock lacks the event's own epoch only
    take_over,  // the event's clock has all of this one
    join,       // each has epochs that the other lacks, as far as compare() can tell
  };
  struct lesson {
    lesson_kind kind = lesson_kind::nothing;
    std::uint32_t of = 0;  // the event's stream, and the epoch that it closed
    std::uint64_t epoch = 0;
    bool alike = false;  // the event's clock has all of this one
  };
  // Returns what `self`, the stream with this clock, learns from an event with that clock.
  [[nodiscard]] lesson compare(std::uint32_t self, std::uint32_t of, std::uint64_t epoch,
                               const vector_clock& theirs) const noexcept;
  // Returns true if learn() can do it, without memory.
  [[nodiscard]] bool learns_in_place(const lesson& l) const noexcept {
    return l.kind == lesson_kind::nothing || (l.kind == lesson_kind::one && (used_ < few || place_of(l.of) < used_));
  }
  void learn(const lesson& l) noexcept;
  // Returns the clock after the lesson. May throw bad_alloc.
  [[nodiscard]] vector_clock after(const lesson& l, const vector_clock& theirs, epoch_nodes& nodes) const;

  // Clocks forget streams that have ended, as all their work is done. So they stay bounded when streams come and go. A
  // sweep visits every id. It waits until enough streams have ended to pay for it.
  [[nodiscard]] bool worth_sweeping(std::uint64_t ended) const noexcept {
    return ended > swept_at_ + std::max<std::uint64_t>(few_ended, size() / 2);
  }
  // Forgets the streams for which ended(id) is true; `now` streams have ended so far. The clock is unchanged if this
  // throws bad_alloc.
  template <class Ended>
  void sweep(std::uint64_t now, const Ended& ended, epoch_nodes& nodes) {
    tree_.remove(nodes, ended);
    erase_if([&](std::size_t place) { return ended(ids_[place]); });
    swept_at_ = now;
  }

  // Calls complete(id, epoch) for all epochs not known to be done.
  template <class Complete>
  void complete(const Complete& complete) const noexcept {
    for (std::size_t i = 0; i < used_; ++i) complete(ids_[i], epochs_[i]);
    tree_.complete(complete);
  }

  // See epoch_tree.
  void abandon() noexcept { tree_.abandon(); }

 private:
  static constexpr std::size_t few = 8;
  static constexpr std::uint64_t few_ended = 32;

  // Returns used_ if the id is not in ids_.
  [[nodiscard]] std::size_t place_of(std::uint32_t id) const noexcept {
    std::size_t i = 0;
    while (i < used_ && ids_[i] != id) ++i;
    return i;
  }
  void put(std::uint32_t id, std::uint64_t epoch, epoch_nodes& nodes);
  void join(const vector_clock& theirs, epoch_nodes& nodes);
  template <class Wanted>
  void erase_if(const Wanted& wanted) noexcept {
    for (std::uint32_t i = used_; i-- != 0;) {
      if (!wanted(i)) continue;
      --used_;
      ids_[i] = ids_[used_];
      epochs_[i] = epochs_[used_];
    }
  }

  epoch_tree tree_;
  std::uint64_t learned_ = 0;   // set_learned(); 0: never
  std::uint64_t swept_at_ = 0;  // no stream in the clock had ended when this many had
  std::uint64_t origin_epoch_ = 0;
  std::uint32_t origin_ = 0;
  std::uint32_t used_ = 0;  // of the arrays below, which are copied whole, since that is faster
  std::array<std::uint32_t, few> ids_{};
  std::array<std::uint64_t, few> epochs_{};
};

}  // namespace berth::detail
