#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "trace/blocks.hpp"
#include "trace/history_builder.hpp"
#include "trace/pickle.hpp"
#include "trace/segment_map.hpp"

namespace berth::trace {
namespace {

using value = pickle::value;

constexpr bytes most_bytes = bytes{1} << 62;

class snapshot_reader {
 public:
  explicit snapshot_reader(const pickle& p) : p_{p}, seen_(p.containers.size()) {}

  result<engine_log> read() {
    if (!find_parts() || !choose_device() || !read_segments() || !read_trace()) {
      return error{errc::invalid_input, wrong_, 0};
    }
    for (const event& e : still_alive_) {
      if (!builder_.was_alive(e)) return error{errc::invalid_input, too_much, 0};
    }
    out_.engine = "PyTorch";
    builder_.finish(out_);
    other_ = partners(out_.history.events);
    find_reserved();
    out_.history.sites.resize(sites_.size());
    for (const auto& [place, index] : sites_) out_.history.sites[index - 1] = {place.first, place.second};
    return std::move(out_);
  }

 private:
  static constexpr const char* too_much = "more than 2^62 bytes are alive, or a block ends beyond the address space";
  struct held {
    std::uint64_t address;
    bytes size;
    bool more;
    bool pages;  // of an expandable segment
    std::size_t failed_before;
    std::uint64_t before;  // the events of blocks until then
  };
  bool fail(const char* why) {
    wrong_ = why;
    return false;
  }

  // A snapshot is a dictionary; torch.cuda.memory_snapshot() is the list of segments alone.
  bool find_parts() {
    const value* segments = p_.root.is == pickle::kind::list ? &p_.root : p_.find(p_.root, "segments");
    if (segments == nullptr || segments->is != pickle::kind::list) {
      return fail("a pickle, but no snapshot of PyTorch's memory: it has no list of segments");
    }
    segments_ = p_.list(*segments);
    if (const value* traces = p_.find(p_.root, "device_traces")) traces_ = p_.list(*traces);
    return true;
  }

  // Chooses the device with the most events; without any, the first segment's.
  bool choose_device() {
    std::size_t most = 0;
    std::uint32_t with_history = 0;
    for (std::size_t i = 0; traces_ != nullptr && i < traces_->size() && i < UINT32_MAX; ++i) {
      const std::vector<value>* trace = p_.list((*traces_)[i]);
      if (trace == nullptr || trace->empty()) continue;
      ++with_history;
      if (trace->size() <= most) continue;
      most = trace->size();
      trace_ = trace;
      out_.device = static_cast<std::uint32_t>(i);
    }
    if (most == 0 && !segments_->empty()) {
      out_.device = static_cast<std::uint32_t>(number(segments_->front(), "device").value_or(0));
    }
    out_.devices = std::max(with_history, 1u);
    return true;
  }

  // Looks at each dictionary once, so that few bytes cannot stand for many events.
  bool enter(const value& v) {
    if (v.is != pickle::kind::dict) return fail("an event, segment or block is no dictionary");
    if (seen_[static_cast<std::size_t>(v.n)]) return fail("an event, segment or block is there twice");
    seen_[static_cast<std::size_t>(v.n)] = true;
    if (p_.list(v)->size() > 128) return fail("an event, segment or block with more than 64 keys");
    return true;
  }
  std::optional<std::uint64_t> number(const value& dict, std::string_view key) const {
    const value* v = p_.find(dict, key);
    return v == nullptr ? std::nullopt : pickle::number(*v);
  }
  [[nodiscard]] std::string_view text(const value& dict, std::string_view key) const {
    const value* v = p_.find(dict, key);
    return v == nullptr ? std::string_view{} : p_.text(*v).value_or("");
  }
  std::uint32_t stream_of(const value& dict) {
    return streams_.try_emplace(number(dict, "stream").value_or(0), static_cast<std::uint32_t>(streams_.size()))
        .first->second;
  }

  bool read_segments() {
    for (const value& s : *segments_) {
      if (!enter(s)) return false;
      if (number(s, "device").value_or(0) != out_.device) continue;
      const auto total = number(s, "total_size"), address = number(s, "address");
      if (!total || *total > most_bytes - held_at_end_) return fail("a segment has no size, or one beyond 2^62");
      held_at_end_ += *total;
      const value* blocks = p_.find(s, "blocks");
      if (!address || blocks == nullptr || blocks->is != pickle::kind::list) continue;
      if (is_expandable(s)) {
        held_now_.map(*address, *total);
      } else {
        held_now_.add(*address, *total, is_private(s));
      }
      std::uint64_t next = *address;
      for (const value& b : *p_.list(*blocks)) {
        if (!enter(b)) return false;
        const value* state = p_.find(b, "state");
        const auto size = number(b, "size"), own = number(b, "address");
        if (!size || state == nullptr) return fail("a block has no size or no state");
        if (p_.text(*state).value_or("inactive").starts_with("active")) {
          const value* before = history_of(b);
          const auto asked = before == nullptr ? number(b, "requested_size") : number(*before, "real_size");
          const std::uint32_t site = site_of(b);
          still_alive_.push_back({.stream = stream_of(s),
                                  .site = site == 0 && before != nullptr ? site_of(*before) : site,
                                  .address = own.value_or(next),
                                  .size = std::min(asked.value_or(*size), *size)});
        }
        next += *size;
      }
    }
    return true;
  }

  bool read_trace() {
    if (trace_ == nullptr) return true;
    for (const value& v : *trace_) {
      if (!enter(v)) return false;
      const std::string_view what = text(v, "action");
      const double time = static_cast<double>(number(v, "time_us").value_or(0));
      if (start_ < 0) start_ = time;
      event e{.address = number(v, "addr").value_or(0),
              .size = number(v, "size").value_or(0),
              .t_us = std::clamp(time - start_, 0.0, 0x1p53)};
      const bool of_segment = what.starts_with("segment_");
      if (of_segment) {
        if (e.size > most_bytes) return fail("a segment beyond 2^62 bytes");
        held_.push_back({.address = e.address,
                         .size = e.size,
                         .more = what == "segment_alloc" || what == "segment_map",
                         .pages = what == "segment_map" || what == "segment_unmap",
                         .failed_before = out_.failed.size(),
                         .before = builder_.events()});
      }
      if (what != "alloc" && what != "free_completed" && what != "oom") continue;
      e.stream = stream_of(v);
      e.site = site_of(v);
      if (what == "oom") {
        out_.failed.push_back({.before = builder_.events(),
                               .size = e.size,
                               .stream = e.stream,
                               .site = e.site,
                               .device_free = number(v, "device_free")});
        continue;
      }
      if (!number(v, "addr") || !number(v, "size")) return fail("an event has no address or no size");
      if (!(what == "alloc" ? builder_.allocate(e) : builder_.free(e))) return fail(too_much);
    }
    return true;
  }

  // Undoes the events from the end, where the segments are known, to the peak and to each failed request.
  void find_reserved() {
    if (segments_->empty() && held_.empty()) return;
    bytes now = held_at_end_, most = now;
    std::size_t failures = out_.failed.size();
    bool before_peak = false;
    measure(out_.now, now, out_.history.events.size(), 0);
    const auto reach = [&](std::size_t failed_before, std::uint64_t events) {
      if (failures == out_.failed.size() && failures > failed_before) measure_failure(now);
      while (failures > failed_before) out_.failed[--failures].reserved = now;
      if (before_peak || events > out_.peak_at) return;
      before_peak = true;
      measure(out_.at_peak, now, out_.peak_at + 1, 0);
    };
    for (auto h = held_.rbegin(); h != held_.rend(); ++h) {
      reach(h->failed_before, h->before + out_.alive_before);
      now = h->more ? now - std::min(now, h->size) : std::min(now + h->size, most_bytes);
      most = std::max(most, now);
      undo(*h);
    }
    reach(0, 0);
    for (const memory_use& u : {out_.now, out_.at_peak, out_.at_failure}) most = std::max(most, u.reserved.value_or(0));
    out_.reserved_peak = most;
    if (!out_.failed.empty()) out_.failed.back().reserved = out_.at_failure.reserved;
  }

  // Completes the figures after so many events. The allocator held `reserved` then, in the segments of held_now_. A log
  // that lacks segments may have more live bytes than that.
  segment_map::holes measure(memory_use& use, bytes reserved, std::size_t events, bytes failed) const {
    bytes largest = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
    for (std::size_t i = 0; i < std::min(events, out_.history.events.size()); ++i) {
      const event& e = out_.history.events[i];
      if (!e.allocate) continue;
      largest = std::max(largest, e.size);
      if (other_[i] >= events) live.emplace_back(e.address, e.address + e.size);
    }
    use.reserved = std::max(reserved, use.live);
    const bytes idle = *use.idle();
    const segment_map::holes h =
        held_now_.beside(std::move(live), failed <= idle ? std::max(largest, failed) : largest);
    if (h.idle != 0 || idle == 0) {
      use.unusable = std::min(h.unusable, idle);
      use.largest_hole = std::min(h.largest, idle);
    }
    return h;
  }

  void measure_failure(bytes reserved) {
    failed_request& f = out_.failed.back();
    const segment_map::holes h = measure(out_.at_failure, reserved, static_cast<std::size_t>(f.before), f.size);
    f.holes = {h.largest_at, h.in_empty, h.in_private, h.segments};
  }

  void undo(const held& h) {
    if (h.pages) {
      h.more ? held_now_.unmap(h.address, h.size) : held_now_.map(h.address, h.size);
    } else {
      h.more ? held_now_.remove(h.address) : held_now_.add(h.address, h.size);
    }
  }

  // Returns whether the segment's pool is not the default one, whose id is (0, 0).
  [[nodiscard]] bool is_private(const value& segment) const {
    const value* id = p_.find(segment, "segment_pool_id");
    const std::vector<value>* parts = id == nullptr ? nullptr : p_.list(*id);
    return parts != nullptr && parts->size() <= 2 &&
           std::ranges::any_of(*parts, [](const value& v) { return v.n != 0; });
  }
  [[nodiscard]] bool is_expandable(const value& segment) const {
    const value* v = p_.find(segment, "is_expandable");
    return v != nullptr && v->is == pickle::kind::boolean && v->n != 0;
  }

  // Returns the block's last owner: PyTorch 2.0 keeps requested size and place in a list of former owners, the last
  // first.
  [[nodiscard]] const value* history_of(const value& block) const {
    const value* all = p_.find(block, "history");
    if (all == nullptr || all->is != pickle::kind::list || p_.list(*all)->empty()) return nullptr;
    const value& last = p_.list(*all)->front();
    return last.is == pickle::kind::dict && p_.list(last)->size() <= 128 ? &last : nullptr;
  }

  // Returns an operator of libtorch by its function's name: "at::_ops::mm" or "torch::autograd::...::MmBackward0".
  // Operators that only allocate are none.
  [[nodiscard]] static std::string_view operator_named(std::string_view function) {
    constexpr std::string_view ops = "at::_ops::";
    if (function.starts_with(ops)) {
      const std::string_view name = function.substr(0, function.find("::", ops.size()));
      return name.substr(ops.size()).find("empty") == std::string_view::npos ? name : std::string_view{};
    }
    const std::size_t apply = function.find("::apply(");
    if (apply == std::string_view::npos || !function.starts_with("torch::")) return {};
    const std::string_view name = function.substr(0, apply);
    return name.find("Backward") == std::string_view::npos ? std::string_view{} : name;
  }

  // Returns whether a thread begins there, or the C library or the standard library calls on from there.
  [[nodiscard]] static bool is_entry(std::string_view file, std::string_view function) {
    if (file.ends_with(".o") || file.ends_with("/thread.cc") || file.ends_with(".S")) return true;
    for (const char* name : {"std::", "clone", "start_thread", "execute_native_thread", "_start", "__libc_start"}) {
      if (function.starts_with(name)) return true;
    }
    return false;
  }

  // Returns how well a frame shows the place in the user's program: 0 is not at all. Stacks mix Python's own frames
  // with those of the interpreter and of libtorch, by name or by file, unless stacks="python" was asked for.
  [[nodiscard]] static int worth(std::string_view file, std::string_view function) {
    if (!operator_named(function).empty()) return operator_worth;
    if (file.empty() || file == "??") return 0;
    const auto has = [file](std::string_view part) { return file.find(part) != std::string_view::npos; };
    if (file.starts_with("<ipython-input") || file == "<stdin>" || file == "<string>") return best_worth;
    const bool python = file.ends_with(".py");
    if (is_entry(file, function)) return 1;
    for (const char* of_torch : {"c10::", "at::", "torch::"}) {
      if (function.starts_with(of_torch) && !python) return 2;
    }
    if (file.starts_with('<') || has("/torch/") || has("\\torch\\") || has("/torch_npu/")) return python ? 5 : 4;
    return python ? best_worth : 4;
  }
  static constexpr int operator_worth = 3, best_worth = 6;

  struct known_frame {
    int worth = 0;
    std::string_view file{};  // or the operator's name, which has no line
    std::uint32_t line = 0;
  };

  // Looks at a frame once: a list of two bytes an entry can name one frame, with a long path, a million times.
  const known_frame& known(const value& frame) {
    static constexpr known_frame none;
    if (frame.is != pickle::kind::dict) return none;
    const auto [at, first] = frames_.try_emplace(frame.n);
    if (!first || p_.list(frame)->size() > 128) return at->second;
    const std::string_view file = text(frame, "filename").substr(0, longest_path);
    const std::uint64_t line = number(frame, "line").value_or(0);
    const std::string_view function = text(frame, "name").substr(0, longest_path), op = operator_named(function);
    const int worth_of_it = worth(file, function);
    if (worth_of_it == operator_worth) return at->second = {worth_of_it, op, 0};
    return at->second = {worth_of_it, file, static_cast<std::uint32_t>(std::min<std::uint64_t>(line, UINT32_MAX))};
  }

  // Returns the innermost frame of the best ones.
  std::uint32_t site_of(const value& dict) {
    const value* frames = p_.find(dict, "frames");
    if (frames == nullptr || frames->is != pickle::kind::list) return 0;
    const auto [at, first] = site_of_frames_.try_emplace(frames->n, 0);
    if (!first) return at->second;
    known_frame best;
    for (const value& f : *p_.list(*frames)) {
      const known_frame& it = known(f);
      if (it.worth > best.worth) best = it;
      if (best.worth == best_worth) break;
    }
    if (best.worth == 0) return 0;
    const auto next = static_cast<std::uint32_t>(sites_.size() + 1);
    return at->second = sites_.try_emplace({std::string{best.file}, best.line}, next).first->second;
  }

  static constexpr std::size_t longest_path = 1024;

  const pickle& p_;
  const char* wrong_ = "";
  const std::vector<value>* segments_ = nullptr;
  const std::vector<value>* traces_ = nullptr;
  const std::vector<value>* trace_ = nullptr;
  std::vector<bool> seen_;  // by container
  std::vector<event> still_alive_;
  std::vector<held> held_;
  bytes held_at_end_ = 0;
  segment_map held_now_;  // at the end, and earlier while find_reserved() goes back
  double start_ = -1;
  history_builder builder_;
  std::vector<std::size_t> other_;  // partners of the finished history
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;
  std::unordered_map<std::uint64_t, std::uint32_t> site_of_frames_;  // by container
  std::unordered_map<std::uint64_t, known_frame> frames_;            // by container
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> sites_;
  engine_log out_;
};

}  // namespace

result<engine_log> parse_pytorch_snapshot(std::string_view text) {
  const result<pickle> p = read_pickle(text);
  if (!p) return p.error();
  return snapshot_reader{*p}.read();
}

}  // namespace berth::trace
