#include "trace/history_builder.hpp"

#include <algorithm>
#include <utility>

namespace berth::trace {

namespace {
constexpr bytes most_alive = bytes{1} << 62;
}  // namespace

bool history_builder::allocate(const event& e) {
  if (alive_.contains(e.address)) {  // its free was not written
    ++unmatched_;
    close(e);
  }
  if (e.size > most_alive - before_bytes_ - live_ || e.size > UINT64_MAX - e.address) return false;
  live_ += e.size;
  live_peak_ = std::max(live_peak_, live_);
  alive_.emplace(e.address, block{e.size, false, now_.size()});
  known_.insert(e.address);
  now_.push_back(e);
  now_.back().allocate = true;
  return true;
}

bool history_builder::free(const event& e) {
  if (!alive_.contains(e.address)) {
    if (known_.contains(e.address)) {
      ++unmatched_;
      return true;
    }
    if (!was_alive(e)) return false;
  }
  close(e);
  return true;
}

bool history_builder::was_alive(const event& e) {
  if (const auto at = alive_.find(e.address); at != alive_.end()) {
    std::uint32_t& site = (at->second.before ? before_ : now_)[at->second.event].site;
    if (site == 0) site = e.site;
  }
  if (known_.contains(e.address)) return true;
  if (e.size > most_alive - before_bytes_ - live_peak_ || e.size > UINT64_MAX - e.address) return false;
  before_bytes_ += e.size;
  alive_.emplace(e.address, block{e.size, true, before_.size()});
  known_.insert(e.address);
  before_.push_back(e);
  before_.back().allocate = true;
  before_.back().t_us = 0;
  return true;
}

void history_builder::close(event by) {
  const auto at = alive_.find(by.address);
  by.allocate = false;
  by.size = at->second.size;
  if (!at->second.before) live_ -= by.size;
  alive_.erase(at);
  now_.push_back(by);
}

void history_builder::finish(engine_log& out) {
  out.alive_before = before_.size();
  out.unmatched = unmatched_;
  for (failed_request& f : out.failed) f.before += out.alive_before;
  std::vector<event>& all = out.history.events;
  all = std::move(before_);
  all.insert(all.end(), now_.begin(), now_.end());
  double last = 0;
  for (event& e : all) last = e.t_us = std::max(e.t_us, last);
  bytes live = 0;
  for (std::size_t i = 0; i <= all.size(); ++i) {
    if (!out.failed.empty() && out.failed.back().before == i) out.at_failure.live = live;
    if (i == all.size()) break;
    live = all[i].allocate ? live + all[i].size : live - all[i].size;
    if (live <= out.at_peak.live) continue;
    out.at_peak.live = live;
    out.peak_at = i;
  }
  out.now.live = live;
}

}  // namespace berth::trace
