#include "pool/store.hpp"

#include <algorithm>
#include <new>

namespace berth::detail {

bool store::make_spares(std::size_t n) noexcept {
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

void store::add_range(bytes offset, bytes size) noexcept {
  extent* e = make();
  e->offset = offset;
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

// Makes a record for a part of an extent, with the same use and without neighbours.
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

// Cuts e, which is in no bin, at that offset. Returns the right part, in no bin either.
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
  const bytes start = e->offset;
  if (offset == start) {
    taken->before = e->before;
    taken->after = e;
    if (e->before != nullptr) e->before->after = taken;
    e->before = taken;
    e->offset += n;
    e->size -= n;
    resized(e, size, start);
    return taken;
  }
  insert_after(e, taken);
  e->size = offset - start;
  resized(e, size, start);
  if (const bytes rest = start + size - taken->end(); rest != 0) {
    extent* const right = part(*e, taken->end(), rest);
    right->set(extent_state::free);
    insert_after(taken, right);
    link(right, in);
  }
  return taken;
}

// Returns true if the free extent b merges with a, which is free or becomes so in that lane.
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
    if (joins_right) unlink(right);  // while left still has the size by which it is linked
    absorb_right(left);
    if (joins_right) absorb_right(left);
    resized(left, size, left->offset);
    return left;
  }
  if (!joins_right) {
    link(e, to);
    return e;
  }
  const bytes size = right->size;
  const bytes start = right->offset;
  right->offset = e->offset;
  right->size += e->size;
  right->before = left;
  if (left != nullptr) left->after = right;
  join_uses(*right, *e);
  recycle(e);
  resized(right, size, start);
  return right;
}

void store::sort_out(lane& l) noexcept {
  const auto moves = [&l](const extent& e) { return e.use.clock == l.clock; };
  for (unsigned bin = nobodys_.next(0); bin < lane::bins; bin = nobodys_.next(bin + 1)) {
    for (extent* e = nobodys_.heads[bin]; e != nullptr;) {
      extent* const next = e->bin_after;
      if (moves(*e)) {
        unlink(e);
        link(e, l);
      }
      e = next;
    }
  }
  for (extent* e = nobodys_.tree.first(0); e != nullptr;) {
    extent* const next = nobodys_.tree.after(*e);
    if (moves(*e)) {
      unlink(e);
      link(e, l);
    }
    e = next;
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
    if (const extent* e = l->tree.last()) {
      most = std::max(most, e->size);
      continue;
    }
    for (unsigned word = lane::words; word-- > 0;) {
      if (l->bitmap[word] == 0) continue;
      const unsigned bin = word * 64 + 63 - static_cast<unsigned>(std::countl_zero(l->bitmap[word]));
      for (const extent* e = l->heads[bin]; e != nullptr; e = e->bin_after) most = std::max(most, e->size);
      break;
    }
  }
  return most;
}

void store::hang(extent* e, lane& in) noexcept {
  if (e->size >= lane::large) return in.tree.insert(e);
  const unsigned bin = lane::bin_of(e->size);
  e->bin_before = nullptr;
  e->bin_after = in.heads[bin];
  if (e->bin_after != nullptr) e->bin_after->bin_before = e;
  in.heads[bin] = e;
  in.bitmap[bin / 64] |= std::uint64_t{1} << (bin % 64);
}

// Unlinks an extent that is linked there by this size and offset.
void store::unhang(extent* e, lane& in, bytes size, bytes offset) noexcept {
  if (size >= lane::large) return in.tree.erase(e, size, offset);
  if (e->bin_after != nullptr) e->bin_after->bin_before = e->bin_before;
  if (e->bin_before != nullptr) {
    e->bin_before->bin_after = e->bin_after;
    return;
  }
  const unsigned bin = lane::bin_of(size);
  in.heads[bin] = e->bin_after;
  if (in.heads[bin] == nullptr) in.bitmap[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
}

void store::link(extent* e, lane& to) noexcept {
  e->home = &to;
  hang(e, to);
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
  unhang(e, in, e->size, e->offset);
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

void store::resized(extent* e, bytes size, bytes offset) noexcept {
  lane& in = *e->home;
  in.held += e->size - size;
  free_bytes_ += e->size - size;
  note_epoch(*e, in);
  const bool stays = std::max(size, e->size) < lane::large
                         ? lane::bin_of(size) == lane::bin_of(e->size)
                         : std::min(size, e->size) >= lane::large && in.tree.has_only(e);
  if (stays) return;
  unhang(e, in, size, offset);
  hang(e, in);
}

bool store::check() const {
  bytes sum = 0;
  std::size_t count = 0;
  for (const lane* l : lanes_) {
    bytes held = 0;
    std::size_t here = 0;
    bool good = l->tree.check();
    const auto look_at = [&](const extent& e) {
      const bool in_epoch =
          l->clock == nullptr || (e.use.clock == l->clock && e.use.epoch >= l->floor && e.use.epoch <= l->ceiling);
      const bool left = e.before == nullptr || (e.before->end() == e.offset && e.before->after == &e);
      const bool right = e.after == nullptr || (e.after->offset == e.end() && e.after->before == &e);
      const bool merged = e.after == nullptr || !mergeable(e, *l, *e.after);
      good = good && e.is(extent_state::free) && e.home == l && e.size != 0 && in_epoch && left && right && merged;
      held += e.size;
      ++here;
    };
    for (unsigned bin = 0; bin < lane::bins; ++bin) {
      good = good && ((l->bitmap[bin / 64] >> (bin % 64) & 1) != 0) == (l->heads[bin] != nullptr);
      for (const extent* e = l->heads[bin]; e != nullptr; e = e->bin_after) {
        good = good && e->size < lane::large && lane::bin_of(e->size) == bin;
      }
    }
    l->tree.for_each([&](const extent& e) { good = good && e.size >= lane::large; });
    l->for_each(look_at);
    if (!good || held != l->held || here != l->count) return false;
    sum += held;
    count += here;
  }
  return sum == free_bytes_ && count == free_count_;
}

}  // namespace berth::detail
