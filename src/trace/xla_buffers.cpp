#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "trace/history_builder.hpp"
#include "trace/proto_fields.hpp"

namespace berth::trace {
namespace {

// The fields read of xla/service/hlo.proto.
constexpr field_name of_assignment[] = {
    {"logical_buffers", 1}, {"buffer_allocations", 3}, {"heap_simulator_traces", 4}};
constexpr field_name of_buffer[] = {{"id", 1}, {"index", 1}, {"size", 2}};  // and of an allocation
constexpr field_name of_trace[] = {{"events", 1}, {"buffer_allocation_index", 3}};
constexpr field_name of_event[] = {
    {"kind", 1}, {"buffer_id", 2}, {"computation_name", 3}, {"instruction_name", 4}, {"share_with_canonical_id", 5}};
constexpr field_name kinds[] = {{"ALLOC", 0}, {"FREE", 1}, {"SHARE_WITH", 2}};

constexpr bytes most = bytes{1} << 62;

struct simulated {
  std::int64_t kind = 0;
  std::int64_t buffer = 0;
  std::int64_t canonical = 0;
  std::string_view instruction;
  const char* at = nullptr;  // in the file
  std::int64_t region = 0;   // the buffer at the end of all sharing
  bool kept = false;         // a FREE whose region the next user shares, and does not allocate anew
};

struct heap {
  std::vector<simulated> events;
  std::int64_t allocation = 0;
};

class xla_reader {
 public:
  xla_reader(std::string_view text, bool binary) : text_{text}, binary_{binary} {}

  result<engine_log> read() {
    if (!read_file() || !play()) return error{errc::invalid_input, wrong_, place()};
    return std::move(out_);
  }

 private:
  // Calls `f` for each field of the message; false if the field is wrong or `f` fails.
  template <class F>
  bool each(std::string_view message, std::span<const field_name> names, F f, std::span<const field_name> words = {}) {
    proto_fields fields{message, binary_, names, words};
    proto_field field;
    while (fields.next(field)) {
      if (!f(field)) return fail("a message where a number is meant, or the reverse", fields.at());
    }
    return fields.wrong() == nullptr || fail(fields.wrong(), fields.at());
  }
  // The first reason is the innermost, and stays.
  bool fail(const char* what, const char* at) {
    if (wrong_ == nullptr) {
      wrong_ = what;
      at_ = at;
    }
    return false;
  }
  // Returns a byte's offset, or a line.
  [[nodiscard]] std::uint64_t place() const {
    if (at_ == nullptr) return 0;
    const auto before = static_cast<std::size_t>(at_ - text_.data());
    if (binary_) return before;
    return 1 + static_cast<std::uint64_t>(
                   std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(before), '\n'));
  }

  // An HloProto, or the BufferAssignmentProto in it: both have a field 3, the latter a field 4 too.
  bool read_file() {
    std::string_view assignment;
    bool is_assignment = false, has_traces = false;
    const auto look = [&](const proto_field& f) {
      if (binary_ ? f.number == 4 : f.number == 4 || f.number == 1) is_assignment = true;
      if (f.number == 3 && f.nested) assignment = f.inside;
      return true;
    };
    static constexpr field_name of_either[] = {
        {"buffer_assignment", 3}, {"logical_buffers", 1}, {"heap_simulator_traces", 4}};
    if (!each(text_, of_either, look)) return false;
    if (!is_assignment && assignment.empty())
      return fail("no buffer assignment is in it: XLA writes one after it has compiled", nullptr);
    const auto field = [&](const proto_field& f) {
      if (f.number != 1 && f.number != 3 && f.number != 4) return true;
      if (!f.nested) return false;
      if (f.number == 1) return read_size(f.inside, sizes_);
      if (f.number == 3) return read_size(f.inside, held_);
      has_traces = true;
      return read_trace(f.inside);
    };
    if (!each(is_assignment ? text_ : assignment, of_assignment, field)) return false;
    return has_traces || fail("the buffer assignment has no heap_simulator_traces", nullptr);
  }

  bool read_size(std::string_view message, std::unordered_map<std::int64_t, std::int64_t>& to) {
    std::int64_t id = 0, size = 0;
    const auto field = [&](const proto_field& f) {
      if (f.number == 1) id = f.value;
      if (f.number == 2) size = f.value;
      return f.nested == false || f.number > 2 || f.number == 0;
    };
    if (!each(message, of_buffer, field)) return false;
    if (size < 0) return fail("a size is negative", message.data());
    to[id] = size;
    return true;
  }

  bool read_trace(std::string_view message) {
    heap& h = heaps_.emplace_back();
    return each(message, of_trace, [&](const proto_field& f) {
      if (f.number == 3) h.allocation = f.value;
      if (f.number != 1) return true;
      return f.nested && read_event(f.inside, h.events.emplace_back());
    });
  }

  bool read_event(std::string_view message, simulated& e) {
    e.at = message.data();
    const auto field = [&](const proto_field& f) {
      if (f.number == 1) e.kind = f.value;
      if (f.number == 2) e.buffer = f.value;
      if (f.number == 4) e.instruction = f.inside;
      if (f.number == 5) e.canonical = f.value;
      return f.number == 0 || f.number > 5 || f.nested == (f.number == 3 || f.number == 4);
    };
    return each(message, of_event, field, kinds);
  }

  // Plays the heap (memory) with the most events. A canonical buffer lives as long as any that shares it.
  bool play() {
    const auto largest = std::ranges::max_element(heaps_, {}, [](const heap& h) { return h.events.size(); });
    out_.engine = "XLA";
    out_.device = static_cast<std::uint32_t>(largest - heaps_.begin());
    out_.devices = static_cast<std::uint32_t>(heaps_.size());
    // An allocation combined of several heaps does not measure one of them (BufferAssigner puts the temporary ones of a
    // memory end to end).
    const auto held = held_.find(largest->allocation);
    if (held != held_.end() && std::ranges::count(heaps_, largest->allocation, &heap::allocation) == 1) {
      out_.reserved_peak = static_cast<bytes>(held->second);
    }
    if (!find_regions(largest->events)) return false;
    for (const simulated& e : largest->events) {
      if (!step(e)) return false;
      now_ += 1;
    }
    builder_.finish(out_);
    if (out_.reserved_peak) {  // a plan: no request could use what is idle at the peak
      out_.reserved_peak = out_.at_peak.reserved = std::max(*out_.reserved_peak, out_.at_peak.live);
      out_.at_peak.unusable = out_.at_peak.idle();
    }
    out_.unmatched += unmatched_;
    return true;
  }

  enum : std::int64_t { alloc, release, share };

  // Puts all buffers of a chain of sharing into one region, as large as the largest of them. If an operator writes over
  // its operand, HeapSimulator::RunComputation frees the operand. The result shares its memory in the next event, so
  // the memory is never free.
  bool find_regions(std::vector<simulated>& events) {
    std::unordered_map<std::int64_t, std::int64_t> region_of;
    for (simulated& e : events) {
      if (e.kind < alloc || e.kind > share) return fail("an event is none of ALLOC, FREE and SHARE_WITH", e.at);
      const std::int64_t shown = e.kind == share ? e.canonical : e.buffer;
      const auto known = region_of.find(shown);
      e.region = e.kind == alloc || known == region_of.end() ? shown : known->second;
      if (e.kind == release) continue;
      region_of[e.buffer] = e.region;
      if (!sizes_.contains(shown)) return fail("an event of a buffer that logical_buffers does not have", e.at);
      bytes& size = regions_[e.region].size;
      for (const std::int64_t user : {shown, e.buffer}) {
        if (const auto own = sizes_.find(user); own != sizes_.end()) {
          size = std::max(size, static_cast<bytes>(own->second));
        }
      }
    }
    std::unordered_map<std::int64_t, bool> shared_next;
    for (auto e = events.rbegin(); e != events.rend(); ++e) {
      bool& next = shared_next[e->region];
      if (e->kind == release) {
        e->kept = next;
      } else {
        next = e->kind == share;
      }
    }
    return true;
  }

  struct region {
    std::uint64_t address = 0;
    bytes size = 0;
    std::uint64_t users = 0;
    bool alive = false;
  };

  bool step(const simulated& e) {
    if (e.kind == release) {
      const auto at = in_.find(e.buffer);
      if (at == in_.end()) {
        ++unmatched_;
        return true;
      }
      region& r = regions_[at->second];
      in_.erase(at);
      if (--r.users != 0 || e.kept || !r.alive) return true;
      r.alive = false;
      return tell(false, r, e);
    }
    if (!in_.emplace(e.buffer, e.region).second) return fail("a buffer is allocated that is alive", e.at);
    region& r = regions_[e.region];
    ++r.users;
    if (r.alive || r.size == 0) return true;
    r.alive = true;
    return tell(true, r, e);
  }

  // The trace has no addresses: a region gets one at its first allocation.
  bool tell(bool allocate, region& r, const simulated& e) {
    if (r.address == 0) {
      if (next_ > most || r.size > most - next_) return fail("the buffers have more than 2^62 bytes", e.at);
      r.address = next_;
      next_ += align_up(r.size, 64);
    }
    const event told{.site = allocate ? site_of(e.instruction) : 0, .address = r.address, .size = r.size, .t_us = now_};
    return (allocate ? builder_.allocate(told) : builder_.free(told)) || fail("more than 2^62 bytes are alive", e.at);
  }

  std::uint32_t site_of(std::string_view instruction) {
    if (instruction.empty()) return 0;
    const auto [at, fresh] = sites_.emplace(instruction, static_cast<std::uint32_t>(out_.history.sites.size() + 1));
    if (fresh) out_.history.sites.push_back({std::string{instruction}, 0});
    return at->second;
  }

  std::string_view text_;
  bool binary_;
  const char* wrong_ = nullptr;
  const char* at_ = nullptr;
  std::unordered_map<std::int64_t, std::int64_t> sizes_, held_;  // of buffers, and of XLA's allocations
  std::vector<heap> heaps_;
  std::unordered_map<std::int64_t, std::int64_t> in_;  // a live buffer's region
  std::unordered_map<std::int64_t, region> regions_;
  std::unordered_map<std::string_view, std::uint32_t> sites_;
  history_builder builder_;
  engine_log out_;
  std::uint64_t next_ = 64;
  std::uint64_t unmatched_ = 0;
  double now_ = 0;
};

}  // namespace

bool is_xla_proto(std::string_view start) noexcept {
  if (start.size() < 4 || (start[0] != '\x0a' && start[0] != '\x1a')) return false;
  std::size_t inside = 1;
  while (inside < start.size() && inside < 11 && static_cast<unsigned char>(start[inside]) >= 128) ++inside;
  if (++inside >= start.size()) return false;
  const char tag = start[inside];  // a module's name, a buffer's id or size, or a message of a buffer assignment
  if (tag != '\x0a' && tag != '\x08' && tag != '\x10' && tag != '\x1a') return false;
  // A text has no such bytes, and a message soon has some.
  return std::ranges::any_of(start.substr(0, 4096), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  });
}

bool is_xla_text(std::string_view start) noexcept {
  while (!start.empty()) {
    const std::size_t at = start.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos) return false;
    start.remove_prefix(at);
    if (start.front() != '#') break;
    start.remove_prefix(std::min(start.find('\n'), start.size()));
  }
  return std::ranges::any_of(std::array<std::string_view, 5>{"hlo_module", "buffer_assignment", "logical_buffers",
                                                             "buffer_allocations", "heap_simulator_traces"},
                             [&](std::string_view name) { return start.starts_with(name); });
}

result<engine_log> parse_xla_proto(std::string_view message) {
  return xla_reader{message, true}.read();
}

result<engine_log> parse_xla_text(std::string_view text) {
  return xla_reader{text, false}.read();
}

}  // namespace berth::trace
