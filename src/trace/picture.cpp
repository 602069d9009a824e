#include "berth/trace/picture.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/json.hpp"
#include "trace/blocks.hpp"
#include "trace/page.hpp"
#include "trace/ticks.hpp"

namespace berth::trace {
namespace {

constexpr std::size_t most_rectangles = 400'000;
constexpr std::size_t most_steps = 4'000;  // of the curve of what is left out

// Texts by number, each once.
class text_table {
 public:
  std::size_t number_of(const std::string& text) {
    const auto [at, fresh] = numbers_.try_emplace(text, numbers_.size());
    if (fresh) append_string(json_ += json_.empty() ? "" : ",", text);
    return at->second;
  }
  [[nodiscard]] const std::string& json() const { return json_; }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  std::string json_;
};

// Returns a tick as the page counts it.
std::string since(std::int64_t base, std::int64_t time) {
  if (base == 0) return std::to_string(time);
  return std::to_string(ticks_since(base, time));
}

// Returns the bytes that these keep alive, the most in each of some stretches of time: [begin, bytes], ..., and 0 at
// the end.
std::string curve_of(const std::vector<rectangle>& all, const std::vector<std::size_t>& which, std::int64_t base) {
  const auto live =
      live_bytes(which | std::views::transform([&](std::size_t i) -> const rectangle& { return all[i]; }));
  if (live.empty()) return "";
  std::string out;
  bytes highest = 0;
  std::int64_t begin = 0;
  std::size_t steps = 0;
  const std::size_t stretch = live.size() / most_steps + 1;
  const auto write = [&out, base](std::int64_t time, bytes bytes_alive) {
    ((out += out.empty() ? "[" : ",[") += since(base, time) + ',') += std::to_string(bytes_alive) + ']';
  };
  for (const auto& [time, now] : live) {
    if (steps++ % stretch == 0) {
      if (steps > 1) write(begin, highest);
      begin = time;
      highest = now;
    }
    highest = std::max(highest, now);
  }
  write(begin, highest);
  write(live.back().first, 0);
  return out;
}

// Returns "peak":[tick,bytes] if some rectangles are not drawn: the page's curve is then not exact.
std::string exact_peak(const std::vector<rectangle>& all, const std::vector<std::size_t>& rest, std::int64_t base) {
  if (rest.empty()) return "";
  const auto [at, most] = peak_of(all);
  return "\"peak\":[" + since(base, at) + ',' + std::to_string(most) + "],";
}

}  // namespace

std::int64_t base_of(const picture& p) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  bool far = false;
  const auto look_at = [&](const std::vector<rectangle>& all) {
    for (const rectangle& r : all) {
      least = std::min(least, r.lower);
      far |= r.lower < -exact || r.upper > exact;
    }
  };
  look_at(p.rectangles);
  if (p.before) look_at(p.before->rectangles);
  return far ? least : 0;
}

namespace {

// A buffer in the picture, and the same one in the former picture.
struct pair {
  std::size_t now, was;  // or `none`
  double covers;         // the more of the two
};
constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

// Pairs buffers as the page does: the first of a name, in the order of begins, with the first of it.
std::vector<pair> pairs_of(const std::vector<rectangle>& now, const std::vector<rectangle>& was) {
  const auto by_name = [&was](const std::vector<rectangle>& all) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (was.empty()) return order;  // no pairs
    std::ranges::sort(order, [&all](std::size_t i, std::size_t j) {
      return std::tie(all[i].name, all[i].lower, i) < std::tie(all[j].name, all[j].lower, j);
    });
    return order;
  };
  const auto covers = [](const rectangle& r) {
    return static_cast<double>(r.size) * (static_cast<double>(r.upper) - static_cast<double>(r.lower));
  };
  const std::vector<std::size_t> a = by_name(now), b = by_name(was);
  std::vector<pair> out;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const int order = i == a.size() ? 1 : j == b.size() ? -1 : now[a[i]].name.compare(was[b[j]].name);
    pair p{none, none, 0};
    if (order <= 0) p.now = a[i++], p.covers = covers(now[p.now]);
    if (order >= 0) p.was = b[j++], p.covers = std::max(p.covers, covers(was[p.was]));
    out.push_back(p);
  }
  return out;
}

// The rectangles that cover most, in their order, and the others.
struct choice {
  std::vector<std::size_t> shown, rest;
};

// Chooses for the picture and the former one. A buffer drawn in one is drawn in the other, or it would look new or
// gone.
std::pair<choice, choice> choose(const std::vector<rectangle>& now, const std::vector<rectangle>& was) {
  const auto every = [](const std::vector<rectangle>& all) {
    choice c{.shown = std::vector<std::size_t>(all.size()), .rest = {}};
    std::iota(c.shown.begin(), c.shown.end(), std::size_t{0});
    return c;
  };
  if (now.size() <= most_rectangles && was.size() <= most_rectangles) return {every(now), every(was)};
  std::vector<pair> pairs = pairs_of(now, was);
  std::ranges::stable_sort(pairs, std::ranges::greater{}, &pair::covers);
  choice of_now, of_was;
  for (const pair& p : pairs) {
    const bool fits = (p.now == none || of_now.shown.size() < most_rectangles) &&
                      (p.was == none || of_was.shown.size() < most_rectangles);
    if (p.now != none) (fits ? of_now.shown : of_now.rest).push_back(p.now);
    if (p.was != none) (fits ? of_was.shown : of_was.rest).push_back(p.was);
  }
  std::ranges::sort(of_now.shown);
  std::ranges::sort(of_was.shown);
  return {of_now, of_was};
}

// [name, offset, size, lower, upper, memory], ...
void append_rectangles(std::string& out, const std::vector<rectangle>& all, const std::vector<std::size_t>& which,
                       std::int64_t base, text_table& names, text_table& memories) {
  for (const std::size_t i : which) {
    const rectangle& r = all[i];
    append_number(out += out.back() == '[' ? "[" : ",[", names.number_of(r.name));
    for (const bytes n : {r.offset, r.size}) append_number(out += ',', n);
    for (const std::int64_t t : {r.lower, r.upper}) (out += ',') += since(base, t);
    append_number(out += ',', memories.number_of(r.memory));
    out += ']';
  }
}

std::string data_of(const picture& p) {
  const auto [now, was] = choose(p.rectangles, p.before ? p.before->rectangles : std::vector<rectangle>{});
  std::string out = "{\"title\":";
  append_string(out, p.title);
  out += ",\"facts\":[";
  for (const auto& [name, value] : p.facts) {
    append_string(out += out.back() == '[' ? "[" : ",[", name);
    append_string(out += ',', value);
    out += ']';
  }
  append_number(out += "],\"lower_bound\":", p.lower_bound);
  append_string(out += ",\"lower_bound_name\":", p.lower_bound_name);
  append_string(out += ",\"tick\":", p.tick);
  const std::int64_t base = base_of(p);
  append_string(out += ",\"tick_base\":", std::to_string(base));  // as text, since it may exceed a number there
  text_table names, memories;
  out += ",\"buffers\":[";
  append_rectangles(out, p.rectangles, now.shown, base, names, memories);
  if (p.before) append_rectangles(out, p.before->rectangles, was.shown, base, names, memories);
  out += "],\"names\":[" + names.json() + "],\"memories\":[" + memories.json() + "],\"when_us\":[";
  for (const double t : p.when_us) append_number(out += out.back() == '[' ? "" : ",", t);
  out += "],\"addresses\":[";
  for (const auto& [offset, address] : p.addresses) {
    append_number(out += out.back() == '[' ? "[" : ",[", offset);
    // As text, since it may exceed what a JavaScript number holds.
    append_string(out += ',', address == max_bytes ? "" : std::to_string(address));
    out += ']';
  }
  out += "]," + exact_peak(p.rectangles, now.rest, base);
  append_number(out += "\"left_out\":", now.rest.size() + was.rest.size());
  out += ",\"left_out_curve\":[" + curve_of(p.rectangles, now.rest, base) + ']';
  if (p.failed) {
    out += ",\"failed\":{\"at\":" + since(base, p.failed->at);
    append_number(out += ",\"size\":", p.failed->size);
    if (p.failed->hole != 0) {
      append_number(out += ",\"hole\":[", p.failed->hole_begin);
      append_number(out += ',', p.failed->hole);
      out += ']';
    }
    out += '}';
  }
  if (p.before) {  // its rectangles are the last ones
    append_number(out += ",\"before\":{\"from\":", now.shown.size());
    append_string(out += ",\"title\":", p.before->title);
    append_number(out += ",\"lower_bound\":", p.before->lower_bound);
    out += ',' + exact_peak(p.before->rectangles, was.rest, base) + "\"left_out_curve\":[" +
           curve_of(p.before->rectangles, was.rest, base) + "]}";
  }
  return out + '}';
}

}  // namespace

std::string to_html(const picture& p) {
  constexpr std::string_view mark = "BERTH_DATA</script>";
  const std::string_view whole = page;
  const std::size_t at = whole.find(mark);
  std::string html{whole.substr(0, at)};
  html += data_of(p);
  html += whole.substr(at + mark.size() - std::string_view{"</script>"}.size());
  return html;
}

void close_gaps(picture& p) {
  std::vector<std::pair<bytes, bytes>> used;  // [begin, end), to be joined
  // A buffer of no bytes has one here, so that no stretch lies at the place of another.
  for (const rectangle& r : p.rectangles) {
    used.emplace_back(r.offset, r.offset + std::max<bytes>(r.size, r.offset == max_bytes ? 0 : 1));
  }
  if (p.failed && p.failed->hole != 0) {
    used.emplace_back(p.failed->hole_begin,
                      p.failed->hole_begin + std::min(p.failed->hole, max_bytes - p.failed->hole_begin));
  }
  std::ranges::sort(used);
  const auto join = [&used](bytes longest_gap) {
    std::vector<std::pair<bytes, bytes>> joined;
    for (const auto& [begin, end] : used) {
      if (!joined.empty() && begin <= joined.back().second + std::min(longest_gap, max_bytes - joined.back().second)) {
        joined.back().second = std::max(joined.back().second, end);
      } else {
        joined.emplace_back(begin, end);
      }
    }
    used = std::move(joined);
  };
  join(0);
  bytes total = 0;
  for (const auto& [begin, end] : used) total += end - begin;
  join(total / 32);
  p.addresses.clear();
  bytes offset = 0;
  for (const auto& [begin, end] : used) {
    p.addresses.emplace_back(offset, begin);
    offset += end - begin;
  }
  const auto place = [&p](bytes& offset) {
    const auto after = std::ranges::upper_bound(p.addresses, offset, {}, [](const auto& a) { return a.second; });
    const auto& [at, address] = *std::prev(after);
    offset = offset - address + at;
  };
  for (rectangle& r : p.rectangles) place(r.offset);
  if (p.failed && p.failed->hole != 0) place(p.failed->hole_begin);
}

}  // namespace berth::trace
