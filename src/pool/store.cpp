#include "pool/store.hpp"

#include <algorithm>
#include <new>

namespace berth::detail {

bool store::prepare(std::size_t n) noexcept {
  constexpr std::size_t at_a_time = 64;
  while (spares_ < n) {
    try {
      records_.push_back(std::make_unique<extent[]>(at_a_time));
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::size_t i = at_a_time; i-- > 0;) recycle(&records_.back()[i]);
  }
  return true;
}

extent* store::make() noexcept {
  extent* e = spare_;
  expects(e != nullptr, "pool: a record that was not prepared");
  spare_ = e->next;
  --spares_;
  e->next = nullptr;
  return e;
}

void store::recycle(extent* e) noexcept {
  e->set(extent_state::spare);
  e->before = e->after = e->bin_before = e->bin_after = nullptr;
  e->use = {};
  e->stitched.reset();
  e->uses.reset();
  e->next = spare_;
  spare_ = e;
  ++spares_;
}

extent* store::add(bytes offset, bytes size, extent* left, extent* right) noexcept {
  extent* e = make();
  e->offset = offset;
  e->size = size;
  e->before = left;
  e->after = right;
  if (left != nullptr) left->after = e;
  if (right != nullptr) right->before = e;
  e->set(extent_state::free);
  link(e, nobodys_);
  return e;
}

void store::remove(extent* e) noexcept {
  if (e->before != nullptr) e->before->after = nullptr;
  if (e->after != nullptr) e->after->before = nullptr;
  recycle(e);
}

void store::add_range(bytes size) noexcept {
  extent* e = make();
  e->offset = 0;
  e->size = size;
  note_unbacked(e);
}

extent* store::lowest_unbacked(bytes n) const noexcept {
  extent* lowest = nullptr;
  for (extent* e = unbacked_; e != nullptr; e = e->bin_after) {
    if (e->size >= n && (lowest == nullptr || e->offset < lowest->offset)) lowest = e;
  }
  return lowest;
}

bytes store::largest_unbacked() const noexcept {
  bytes most = 0;
  for (const extent* e = unbacked_; e != nullptr; e = e->bin_after) most = std::max(most, e->size);
  return most;
}

extent* store::back(extent* e, bytes n) noexcept {
  forget_unbacked(e);
  if (e->size > n) {
    extent* rest = split(e, e->offset + n);
    note_unbacked(rest);
  }
  return e;
}

void store::unback(extent* e) noexcept {
  e->use = {};
  e->uses.reset();
  if (e->after != nullptr && e->after->is(extent_state::unbacked)) {
    forget_unbacked(e->after);
    absorb_right(e);
  }
  if (e->before != nullptr && e->before->is(extent_state::unbacked)) {
    e = e->before;
    forget_unbacked(e);
    absorb_right(e);
  }
  note_unbacked(e);
}

void store::note_unbacked(extent* e) noexcept {
  e->set(extent_state::unbacked);
  e->bin_before = nullptr;
  e->bin_after = unbacked_;
  if (unbacked_ != nullptr) unbacked_->bin_before = e;
  unbacked_ = e;
}

void store::forget_unbacked(extent* e) noexcept {
  if (e->bin_after != nullptr) e->bin_after->bin_before = e->bin_before;
  (e->bin_before != nullptr ? e->bin_before->bin_after : unbacked_) = e->bin_after;
}

// A record for a part of an extent, with the same use and without neighbours.
extent* store::part(const extent& of, bytes offset, bytes size) noexcept {
  extent* e = make();
  e->offset = offset;
  e->size = size;
  e->use = of.use;
  if (of.uses) e->uses = of.uses;
  return e;
}

static void insert_after(extent* e, extent* fresh) noexcept {
  fresh->before = e;
  fresh->after = e->after;
  if (e->after != nullptr) e->after->before = fresh;
  e->after = fresh;
}

// Cuts e, which is in no bin, at that offset; returns the right part, in no bin either.
extent* store::split(extent* e, bytes at) noexcept {
  extent* right = part(*e, at, e->end() - at);
  insert_after(e, right);
  e->size = at - e->offset;
  return right;
}

extent* store::take(extent* e, bytes offset, bytes n) noexcept {
  if (n == e->size) {
    unlink(e);
    e->set(extent_state::live);
    return e;
  }
  lane& in = *e->home;
  extent* const taken = part(*e, offset, n);
  taken->set(extent_state::live);
  const bytes size = e->size;
  if (offset == e->offset) {
    taken->before = e->before;
    taken->after = e;
    if (e->before != nullptr) e->before->after = taken;
    e->before = taken;
    e->offset += n;
    e->size -= n;
  } else {
    insert_after(e, taken);
    e->size = offset - e->offset;
    if (const bytes rest = size - e->size - n; rest != 0) {
      extent* const right = part(*e, taken->end(), rest);
      right->set(extent_state::free);
      insert_after(taken, right);
      link(right, in);
    }
  }
  resized(e, size);
  return taken;
}

// Whether the free extent b merges with a, which is free or becomes so in that lane.
bool store::mergeable(const extent& a, const lane& of, const extent& b) noexcept {
  return b.is(extent_state::free) && b.home == &of && !a.uses && !b.uses;
}

static void join_uses(extent& e, const extent& other) noexcept {
  if (e.use.clock == nullptr) {
    e.use = other.use;
  } else if (other.use.clock != nullptr) {
    e.use.epoch = std::max(e.use.epoch, other.use.epoch);
  }
}

// Merges e with the extent after it. Neither is in a bin, or e has its former size there.
void store::absorb_right(extent* e) noexcept {
  extent* gone = e->after;
  e->size += gone->size;
  e->after = gone->after;
  if (e->after != nullptr) e->after->before = e;
  join_uses(*e, *gone);
  recycle(gone);
}

extent* store::give(extent* e, lane& to) noexcept {
  e->set(extent_state::free);
  extent* const left = e->before;
  extent* const right = e->after;
  const bool joins_right = right != nullptr && mergeable(*e, to, *right);
  if (left != nullptr && mergeable(*e, to, *left)) {
    const bytes size = left->size;
    absorb_right(left);
    if (joins_right) {
      unlink(right);
      absorb_right(left);
    }
    resized(left, size);
    return left;
  }
  if (!joins_right) {
    link(e, to);
    return e;
  }
  const bytes size = right->size;
  right->offset = e->offset;
  right->size += e->size;
  right->before = left;
  if (left != nullptr) left->after = right;
  join_uses(*right, *e);
  recycle(e);
  resized(right, size);
  return right;
}

void store::sort_out(lane& l) noexcept {
  for (unsigned bin = 0; bin < lane::bins; ++bin) {
    for (extent* e = nobodys_.heads[bin]; e != nullptr;) {
      extent* const next = e->bin_after;
      if (e->use.clock == l.clock) {
        unlink(e);
        link(e, l);
      }
      e = next;
    }
  }
}

extent* store::merge_run(extent* first, extent* last, stream_use use, lane& to) noexcept {
  unlink(first);
  while (first != last) {
    const bool done = first->after == last;
    unlink(first->after);
    absorb_right(first);
    if (done) break;
  }
  first->uses.reset();
  first->use = use;
  link(first, to);
  return first;
}

extent* store::clear_use(extent* e) noexcept {
  unlink(e);
  e->use = {};
  e->uses.reset();
  return give(e, nobodys_);
}

extent* store::clear_further_uses(extent* e) noexcept {
  lane& in = *e->home;
  unlink(e);
  e->uses.reset();
  return give(e, in);
}

bytes store::largest() const noexcept {
  bytes most = 0;
  for (const lane* l : lanes_) {
    for (unsigned word = lane::words; word-- > 0;) {
      if (l->bitmap[word] == 0) continue;
      const unsigned bin = word * 64 + 63 - static_cast<unsigned>(std::countl_zero(l->bitmap[word]));
      for (const extent* e = l->heads[bin]; e != nullptr; e = e->bin_after) most = std::max(most, e->size);
      break;
    }
  }
  return most;
}

unsigned lane::next(unsigned from) const noexcept {
  if (from >= bins) return bins;
  unsigned word = from / 64;
  const std::uint64_t here = bitmap[word] & (~std::uint64_t{0} << (from % 64));
  if (here != 0) return word * 64 + static_cast<unsigned>(std::countr_zero(here));
  const std::uint64_t above = summary & (~std::uint64_t{0} << (word + 1));  // of 16 words: never shifted by 64
  if (above == 0) return bins;
  word = static_cast<unsigned>(std::countr_zero(above));
  return word * 64 + static_cast<unsigned>(std::countr_zero(bitmap[word]));
}

void store::hang(extent* e, lane& in, unsigned bin) noexcept {
  e->bin_before = nullptr;
  e->bin_after = in.heads[bin];
  if (e->bin_after != nullptr) e->bin_after->bin_before = e;
  in.heads[bin] = e;
  in.bitmap[bin / 64] |= std::uint64_t{1} << (bin % 64);
  in.summary |= std::uint64_t{1} << (bin / 64);
}

void store::unhang(extent* e, lane& in, unsigned bin) noexcept {
  if (e->bin_after != nullptr) e->bin_after->bin_before = e->bin_before;
  if (e->bin_before != nullptr) {
    e->bin_before->bin_after = e->bin_after;
    return;
  }
  in.heads[bin] = e->bin_after;
  if (in.heads[bin] != nullptr) return;
  in.bitmap[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (in.bitmap[bin / 64] == 0) in.summary &= ~(std::uint64_t{1} << (bin / 64));
}

void store::link(extent* e, lane& to) noexcept {
  e->home = &to;
  hang(e, to, bin_of(e->size));
  if (to.count == 0) {
    to.floor = std::numeric_limits<std::uint64_t>::max();
    to.ceiling = 0;
  }
  note_epoch(*e, to);
  to.held += e->size;
  ++to.count;
  free_bytes_ += e->size;
  ++free_count_;
}

void store::unlink(extent* e) noexcept {
  lane& in = *e->home;
  unhang(e, in, bin_of(e->size));
  in.held -= e->size;
  --in.count;
  free_bytes_ -= e->size;
  --free_count_;
}

void store::note_epoch(const extent& e, lane& in) noexcept {
  if (in.clock == nullptr) return;
  in.floor = std::min(in.floor, e.use.epoch);
  in.ceiling = std::max(in.ceiling, e.use.epoch);
}

void store::resized(extent* e, bytes before) noexcept {
  lane& in = *e->home;
  in.held += e->size - before;
  free_bytes_ += e->size - before;
  note_epoch(*e, in);
  const unsigned from = bin_of(before);
  const unsigned to = bin_of(e->size);
  if (from == to) return;
  unhang(e, in, from);
  hang(e, in, to);
}

bool store::check() const {
  bytes sum = 0;
  std::size_t count = 0;
  for (const lane* l : lanes_) {
    bytes held = 0;
    std::size_t here = 0;
    for (unsigned bin = 0; bin < lane::bins; ++bin) {
      const bool marked = (l->bitmap[bin / 64] >> (bin % 64) & 1) != 0;
      if (marked != (l->heads[bin] != nullptr)) return false;
      for (const extent* e = l->heads[bin]; e != nullptr; e = e->bin_after) {
        if (!e->is(extent_state::free) || e->home != l || bin_of(e->size) != bin || e->size == 0) return false;
        if (l->clock != nullptr && (e->use.clock != l->clock || e->use.epoch < l->floor || e->use.epoch > l->ceiling)) {
          return false;
        }
        if (e->after != nullptr && (e->after->offset != e->end() || e->after->before != e)) return false;
        if (e->before != nullptr && (e->before->end() != e->offset || e->before->after != e)) return false;
        if (e->after != nullptr && mergeable(*e, *l, *e->after)) return false;
        held += e->size;
        ++here;
      }
    }
    if (held != l->held || here != l->count) return false;
    sum += held;
    count += here;
  }
  return sum == free_bytes_ && count == free_count_;
}

}  // namespace berth::detail
