#include "device/vector_clock.hpp"

namespace berth::detail {

vector_clock::lesson vector_clock::compare(std::uint32_t self, std::uint32_t of, std::uint64_t epoch,
                                           const vector_clock& theirs) const noexcept {
  lesson l{.of = of, .epoch = epoch};
  const std::uint64_t known = this->of(of);
  if (known >= epoch) return l;
  const bool has_theirs =
      known >= theirs.learned_ ||
      (theirs.origin_ != 0 && (theirs.origin_ == self || this->of(theirs.origin_) >= theirs.origin_epoch_));
  l.alike = theirs.of(self) >= learned_;
  l.kind = has_theirs ? lesson_kind::one : l.alike ? lesson_kind::take_over : lesson_kind::join;
  return l;
}

void vector_clock::learn(const lesson& l) noexcept {
  if (l.kind == lesson_kind::nothing) return;
  const std::size_t place = place_of(l.of);
  if (place == used_) ids_[used_++] = l.of;
  epochs_[place] = l.epoch;
  origin_ = l.alike ? l.of : 0;
  origin_epoch_ = l.epoch;
}

vector_clock vector_clock::after(const lesson& l, const vector_clock& theirs, epoch_nodes& nodes) const {
  vector_clock result{l.kind == lesson_kind::take_over ? theirs : *this};
  result.learned_ = learned_;
  if (l.kind == lesson_kind::join) result.join(theirs, nodes);
  if (l.kind != lesson_kind::nothing) {
    result.put(l.of, l.epoch, nodes);
    result.learn(l);
  }
  return result;
}

// Takes the larger epoch of each stream.
void vector_clock::join(const vector_clock& theirs, epoch_nodes& nodes) {
  swept_at_ = std::min(swept_at_, theirs.swept_at_);
  if (tree_.join(nodes, theirs.tree_)) {
    erase_if([this](std::size_t place) { return tree_.of(ids_[place]) >= epochs_[place]; });  // I1
  }
  for (std::size_t i = 0; i < theirs.used_; ++i) {
    if (of(theirs.ids_[i]) < theirs.epochs_[i]) put(theirs.ids_[i], theirs.epochs_[i], nodes);
  }
}

// Sets an epoch that is larger than the one that the clock has. May throw bad_alloc.
void vector_clock::put(std::uint32_t id, std::uint64_t epoch, epoch_nodes& nodes) {
  const std::size_t place = place_of(id);
  if (place < used_) {
    epochs_[place] = epoch;
    return;
  }
  if (used_ == few) {
    for (std::size_t i = 0; i < few; ++i) tree_.set(nodes, ids_[i], epochs_[i]);
    used_ = 0;
  }
  ids_[used_] = id;
  epochs_[used_++] = epoch;
}

}  // namespace berth::detail
