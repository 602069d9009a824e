// Parses BERTH_DEBUG.
#include <array>

#include "berth/pool/debug.hpp"
#include "berth/scratch/scratch.hpp"
#include "core/byte_count.hpp"

namespace berth {
namespace {

struct flag {
  const char* name;
  bool debug_options::*is;
};
struct amount {
  const char* name;
  std::uint64_t least, most;
  void (*set)(debug_options& o, std::uint64_t n);
};

constexpr std::array flags{flag{"guards", &debug_options::guards},    flag{"pages", &debug_options::pages},
                           flag{"warn", &debug_options::warn},        flag{"leaks", &debug_options::leaks},
                           flag{"signal", &debug_options::on_signal}, flag{"arenas", &debug_options::arenas}};
constexpr std::uint64_t any = ~std::uint64_t{0};
constexpr std::array amounts{
    amount{"quarantine", 0, any,
           [](debug_options& o, std::uint64_t n) {
             o.quarantine = n;
             o.guards |= n != 0;  // no quarantine without guards
           }},
    amount{"every", 0, any, [](debug_options& o, std::uint64_t n) { o.check_every = n; }},
    amount{"live", 0, any, [](debug_options& o, std::uint64_t n) { o.live_alarm = n; }},
    amount{"bytes", 0, any, [](debug_options& o, std::uint64_t n) { o.bytes_alarm = n; }},
    amount{"age", 0, 1'000'000'000, [](debug_options& o, std::uint64_t n) { o.age_alarm = std::chrono::seconds{n}; }},
    amount{"stack", 1, 32, [](debug_options& o, std::uint64_t n) { o.stack_depth = static_cast<unsigned>(n); }},
    amount{"scratch", 1, most_scratch_zone, [](debug_options& o, std::uint64_t n) { o.scratch_zone = n; }},
    amount{"sample", 1, 1'000'000'000,
           [](debug_options& o, std::uint64_t n) { o.sample = static_cast<std::uint32_t>(n); }},
};

// Returns false for an unknown word.
bool read_word(std::string_view word, debug_options& o) {
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (equals == std::string_view::npos) {
    for (const flag& f : flags) {
      if (name == f.name) return o.*f.is = true;
    }
    if (name == "stack") o.stack_depth = 12;
    if (name == "scratch") o.scratch_zone = least_scratch_zone;
    return name == "stack" || name == "scratch";
  }
  std::string_view value = word.substr(equals + 1);
  if (name == "report") {
    o.report = value;
    return !value.empty();
  }
  if (name == "sample" && value.starts_with("1/")) value.remove_prefix(2);
  const auto n = value.find('.') == std::string_view::npos ? parse_bytes(value) : std::nullopt;  // many are counts
  for (const amount& a : amounts) {
    if (name != a.name || !n || *n < a.least || *n > a.most) continue;
    a.set(o, *n);
    return true;
  }
  return false;
}

}  // namespace

debug_words read_debug(std::string_view words) {
  debug_words out;
  while (!words.empty()) {
    const std::size_t comma = words.find(',');
    const std::string_view word = words.substr(0, comma);
    words = comma == std::string_view::npos ? std::string_view{} : words.substr(comma + 1);
    if (!word.empty() && !read_word(word, out.options)) out.unknown.emplace_back(word);
  }
  return out;
}

}  // namespace berth
