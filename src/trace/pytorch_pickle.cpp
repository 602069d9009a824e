// A snapshot as PyTorch's memory_viz opens it: a pickle of protocol 2, which JavaScript's reader there knows too.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "berth/trace/engine_log.hpp"
#include "core/json.hpp"

namespace berth::trace {
namespace {

class writer {
 public:
  [[nodiscard]] std::string take() { return "\x80\x02" + std::move(out_) + "."; }

  void number(std::uint64_t n) {
    if (n < 256) {
      out_ += 'K';
      raw(n, 1);
    } else if (n <= INT32_MAX) {
      out_ += 'J';
      raw(n, 4);
    } else {  // LONG1, with a byte more where the top bit is not the sign
      const unsigned width = static_cast<unsigned>(std::bit_width(n)) / 8 + 1;
      out_ += "\x8a";
      raw(width, 1);
      raw(n, std::min(width, 8u));
      if (width == 9) out_ += '\0';
    }
  }
  // Replaces bytes that are not UTF-8 by U+FFFD.
  void text(std::string_view t) {
    const std::string good = as_utf8(t);
    out_ += 'X';
    raw(good.size(), 4);
    out_ += good;
  }
  void begin_list() { out_ += "]("; }
  void end_list() { out_ += 'e'; }
  void begin_dict() { out_ += "}("; }
  void end_dict() { out_ += 'u'; }
  void pair(std::string_view key, std::uint64_t n) {
    text(key);
    number(n);
  }
  void pair(std::string_view key, std::string_view t) {
    text(key);
    text(t);
  }

 private:
  void raw(std::uint64_t n, unsigned width) {
    for (unsigned i = 0; i < width; ++i) out_ += static_cast<char>(n >> (8 * i) & 0xff);
  }
  std::string out_;
};

void frames(writer& w, const snapshot& s, std::uint32_t site) {
  w.text("frames");
  w.begin_list();
  if (site != 0) {
    w.begin_dict();
    w.pair("filename", s.sites[site - 1].file);
    w.pair("line", s.sites[site - 1].line);
    w.pair("name", "");
    w.end_dict();
  }
  w.end_list();
}

struct range {
  std::uint64_t begin;
  std::uint64_t end;
};

// Returns stretches that blocks lay in at some time, without gaps above 2 MiB: the segments for a reader.
std::vector<range> stretches(const snapshot& s) {
  constexpr std::uint64_t most_gap = std::uint64_t{2} << 20;
  std::vector<range> all;
  for (const event& e : s.events) {
    if (e.allocate && e.size != 0) all.push_back({e.address, e.address + e.size});
  }
  std::ranges::sort(all, {}, &range::begin);
  std::vector<range> out;
  for (const range& r : all) {
    if (out.empty() || (r.begin > out.back().end && r.begin - out.back().end > most_gap)) {
      out.push_back(r);
    } else {
      out.back().end = std::max(out.back().end, r.end);
    }
  }
  return out;
}

void block(writer& w, const snapshot& s, std::uint64_t address, bytes size, const event* alive) {
  w.begin_dict();
  w.pair("address", address);
  w.pair("size", size);
  w.pair("requested_size", size);
  w.pair("state", alive != nullptr ? "active_allocated" : "inactive");
  frames(w, s, alive != nullptr ? alive->site : 0);
  w.end_dict();
}

void segment(writer& w, const snapshot& s, const range& r, std::vector<event>::const_iterator& next,
             std::vector<event>::const_iterator end) {
  bytes allocated = 0;
  for (auto e = next; e != end && e->address < r.end; ++e) allocated += e->size;
  w.begin_dict();
  w.pair("device", 0);
  w.pair("address", r.begin);
  w.pair("total_size", r.end - r.begin);
  w.pair("allocated_size", allocated);
  w.pair("active_size", allocated);
  w.pair("requested_size", allocated);
  w.pair("stream", next != end && next->address < r.end ? next->stream : 0);
  w.pair("segment_type", "large");
  frames(w, s, 0);
  w.text("blocks");
  w.begin_list();
  std::uint64_t at = r.begin;
  for (; next != end && next->address < r.end; ++next) {
    if (next->address > at) block(w, s, at, next->address - at, nullptr);
    block(w, s, next->address, next->size, &*next);
    at = next->address + next->size;
  }
  if (at < r.end) block(w, s, at, r.end - at, nullptr);
  w.end_list();
  w.end_dict();
}

void happens(writer& w, const snapshot& s, const event& e, std::string_view action) {
  w.begin_dict();
  w.pair("action", action);
  w.pair("addr", e.address);
  w.pair("size", e.size);
  w.pair("stream", e.stream);
  w.pair("time_us", e.t_us > 0 ? static_cast<std::uint64_t>(e.t_us) : 0);
  frames(w, s, e.site);
  w.end_dict();
}

}  // namespace

std::string to_pytorch_pickle(const snapshot& s) {
  writer w;
  std::vector<event> still = alive(s);
  std::erase_if(still, [](const event& e) { return e.size == 0; });
  std::ranges::sort(still, {}, &event::address);
  w.begin_dict();
  w.text("segments");
  w.begin_list();
  auto next = still.cbegin();
  for (const range& r : stretches(s)) segment(w, s, r, next, still.cend());
  w.end_list();
  w.text("device_traces");
  w.begin_list();
  w.begin_list();
  for (const event& e : s.events) {
    if (e.allocate) {
      happens(w, s, e, "alloc");
    } else {
      happens(w, s, e, "free_requested");
      happens(w, s, e, "free_completed");
    }
  }
  w.end_list();
  w.end_list();
  w.end_dict();
  return w.take();
}

}  // namespace berth::trace
