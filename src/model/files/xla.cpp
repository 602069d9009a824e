// The layout of XLA's compiler (berth/trace/engine_log.hpp): each event of its heap simulator is a tick.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "berth/model/input_error.hpp"
#include "berth/trace/engine_log.hpp"
#include "model/file.hpp"
#include "model/files/checks.hpp"
#include "model/files/readers.hpp"
#include "model/files/text.hpp"

namespace berth::model {

namespace {

// A reader of *-buffer-assignment.txt (xla/service/buffer_assignment.cc, BufferAssignment::ToString): allocations with
// the values that share them, and behind that, or in *-live-range.txt, when each value is alive:
//
//   BufferAssignment:
//   allocation 0: size 128, parameter 0, shape |f32[32]| at ShapeIndex {}:
//    value: <3 add.1{0} @0> (size=128,offset=0): f32[32]{0}
//   ...
//     BufferLiveRange:
//       add.1{0}:2-5
//
// Values that share bytes while both are alive are one buffer in several names.
class assignment_reader {
 public:
  assignment_reader(const std::string& path, std::string_view text) : text_{text} { out_.path = path; }

  problem_file read() {
    enum class part : std::uint8_t { allocations, other, ranges } in = part::allocations;
    while (!text_.empty()) {
      ++line_;
      const std::string_view line = trim(cut(text_, '\n'));
      if (line.starts_with("Total bytes used") || line.starts_with("HloLiveRange")) in = part::other;
      if (line.starts_with("Live ranges at")) in = part::other;
      if (line == "BufferLiveRange:") {
        in = part::ranges;
      } else if (in == part::allocations && line.starts_with("allocation ")) {
        read_allocation(line);
      } else if (in == part::allocations && line.starts_with("value: ")) {
        read_value(line);
      } else if (in == part::ranges && !line.empty()) {
        read_range(line);
      }
    }
    add_buffers();
    make_good_ids(out_);
    return std::move(out_);
  }

 private:
  struct value {
    std::string_view name;
    bytes offset = 0, size = 0;
  };
  struct allocation {
    std::string_view number;
    bytes size = 0;
    bool temporary = false;
    std::vector<value> values{};
  };
  struct life {
    plan::interval live;
    bytes begin = 0, end = 0;  // of its allocation
    std::string_view name;
  };

  [[noreturn]] void fail(const std::string& what) const { throw input_error(out_.path, line_, what); }

  bytes number(std::string_view text) const {
    const auto n = parse_number<bytes>(text);
    if (!n || *n > plan::max_address) fail("a number is meant, from 0 to 2^62: " + quote(text));
    return *n;
  }

  void read_allocation(std::string_view line) {
    line.remove_prefix(std::string_view{"allocation "}.size());
    allocation a{.number = cut(line, ':')};
    std::string_view kind = line.substr(std::min(line.find("size "), line.size()));
    kind.remove_prefix(std::min<std::size_t>(5, kind.size()));
    a.size = number(kind.substr(0, kind.find_first_of(",:")));
    const auto is = [kind](std::string_view what) { return kind.find(what) != std::string_view::npos; };
    a.temporary = is("preallocated-temp");
    const bool constant = is(", constant") || is(", thread-local"), colored = is(", color ");
    skip_ = constant || colored;
    constants_ += constant ? 1 : 0;
    colored_ += colored && !constant ? 1 : 0;
    if (!skip_) allocations_.push_back(std::move(a));
  }

  // " value: <3 add.1{0} @0> (size=128,offset=0): f32[32]{0}"
  void read_value(std::string_view line) {
    const std::size_t name = line.find(' ', line.find('<')), size = line.find("(size="),
                      offset = line.find(",offset=", size == std::string_view::npos ? 0 : size);
    const std::size_t end = line.find(')', offset);
    if (name >= size || end == std::string_view::npos) fail("not the form of a value");
    if (skip_) return;
    if (allocations_.empty()) fail("a value before an allocation");
    std::string_view rest = line.substr(name + 1, size - name - 1);
    value v{.name = rest.substr(0, rest.find_first_of(" >")),
            .offset = number(line.substr(offset + 8, end - offset - 8)),
            .size = number(line.substr(size + 6, offset - size - 6))};
    allocation& a = allocations_.back();
    if (v.offset > a.size || v.size > a.size - v.offset) fail("a value beyond the end of its allocation");
    a.values.push_back(v);
  }

  // "add.1{0}:2-5": both ends are part of it.
  void read_range(std::string_view line) {
    const std::size_t colon = line.rfind(':'), dash = line.find('-', colon == std::string_view::npos ? 0 : colon);
    if (colon == std::string_view::npos || dash == std::string_view::npos) fail("not the form of a live range");
    const auto from = static_cast<plan::tick>(number(line.substr(colon + 1, dash - colon - 1))),
               to = static_cast<plan::tick>(number(line.substr(dash + 1)));
    if (from > to) fail("a live range that ends before it begins");
    ranges_[without_index(line.substr(0, colon))] = {from, to + 1};
    end_ = std::max(end_, to + 1);
  }

  // An instruction with one result is "add.1" in allocations and "add.1{}" in live ranges.
  static std::string_view without_index(std::string_view name) {
    return name.ends_with("{}") ? name.substr(0, name.size() - 2) : name;
  }

  void add(std::string_view name, bytes size, plan::interval live) {
    if (size == 0) return;
    if (out_.problem.buffers.size() == most_buffers) throw input_error(out_.path, "more than 2^24 buffers");
    out_.problem.add({.name = std::string{name}, .size = size, .live = live});
  }

  void add_buffers() {
    if (allocations_.empty() && colored_ + constants_ == 0) throw input_error(out_.path, "has no allocations");
    bytes total = 0, temporary = 0;
    for (const allocation& a : allocations_) {
      if (a.size > plan::max_address - total) throw input_error(out_.path, "its allocations exceed 2^62 bytes");
      total += a.size;
      if (a.temporary && !ranges_.empty()) {
        temporary += a.size;
        add_values(a);
      } else {
        add("allocation " + std::string{a.number}, a.size, {0, std::max<plan::tick>(end_, 1)});
      }
    }
    out_.notes.push_back("XLA's own allocations have " + std::to_string(total) + " bytes, " +
                         (ranges_.empty() ? "each taken as it is: the live ranges are not in this file; append its "
                                            "*-live-range.txt"
                                          : std::to_string(temporary) + " of them temporary"));
    if (constants_ != 0)
      out_.notes.push_back(std::to_string(constants_) + " constants and thread-local allocations are not in this plan");
    if (colored_ != 0) {
      out_.notes.push_back(std::to_string(colored_) + " allocations in other memories are not in this plan");
    }
    out_.counts_all = colored_ == 0;
  }

  static life joined(const life& a, const life& b) {
    return {{a.live.lower, std::max(a.live.upper, b.live.upper)},
            std::min(a.begin, b.begin),
            std::max(a.end, b.end),
            a.name};
  }

  // Adds the values of an allocation. Values that share bytes while both are alive become one buffer.
  void add_values(const allocation& a) {
    std::vector<life> lives;
    for (const value& v : a.values) {
      const auto range = ranges_.find(without_index(v.name));
      const plan::interval live = range == ranges_.end() ? plan::interval{0, end_} : range->second;
      if (v.size != 0) lives.push_back({live, v.offset, v.offset + v.size, v.name});
    }
    std::ranges::stable_sort(lives, {}, [](const life& l) { return l.live.lower; });
    std::vector<life> ended;
    std::map<bytes, life> now;  // by offset; no two share bytes
    for (life next : lives) {
      const plan::tick begun = next.live.lower;
      auto it = now.upper_bound(next.begin);
      if (it != now.begin() && std::prev(it)->second.end > next.begin) --it;
      for (; it != now.end() && it->first < next.end; it = now.erase(it)) {
        if (begun < it->second.live.upper) {
          next = joined(it->second, next);
        } else {
          ended.push_back(it->second);
        }
      }
      now.emplace(next.begin, next);
    }
    for (const auto& [offset, one] : now) ended.push_back(one);
    std::ranges::sort(ended, {}, [](const life& l) { return std::pair{l.begin, l.live.lower}; });
    for (const life& one : ended) add(one.name, one.end - one.begin, one.live);
  }

  std::string_view text_;
  problem_file out_;
  std::vector<allocation> allocations_;
  std::unordered_map<std::string_view, plan::interval> ranges_;
  bool skip_ = false;  // the values of this allocation
  std::size_t constants_ = 0, colored_ = 0, line_ = 0;
  plan::tick end_ = 0;
};

}  // namespace

problem_file read_xla(const std::string& path, std::string_view text) {
  if (is_xla_assignment(text)) return assignment_reader{path, text}.read();
  const bool binary = trace::is_xla_proto(text);
  const auto log = binary ? trace::parse_xla_proto(text) : trace::parse_xla_text(text);
  if (!log) {
    const auto [code, what, number] = log.error();
    if (number == 0) throw input_error(path, what);
    if (binary) throw input_error(path, "byte " + std::to_string(number) + ": " + what);
    throw input_error(path, number, what);
  }
  problem_file file;
  file.path = path;
  std::unordered_map<std::uint64_t, plan::index> alive;
  const auto end = static_cast<plan::tick>(log->history.events.size());
  for (plan::tick now = 0; now < end; ++now) {
    const trace::event& e = log->history.events[static_cast<std::size_t>(now)];
    if (file.problem.buffers.size() == most_buffers) throw input_error(path, "more than 2^24 buffers");
    if (!e.allocate) {
      file.problem.buffers[alive.at(e.address)].live.upper = now;
      continue;
    }
    plan::buffer b;
    if (e.site != 0) b.name = log->history.sites[e.site - 1].file;
    b.size = e.size;
    b.live = {now, end};
    alive[e.address] = file.problem.add(std::move(b));
  }
  make_good_ids(file);  // instructions with several results
  return file;
}

}  // namespace berth::model
