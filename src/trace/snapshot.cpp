#include "berth/trace/snapshot.hpp"

#include <type_traits>
#include <unordered_map>

#include "core/json.hpp"
#include "trace/blocks.hpp"
#include "trace/fields.hpp"

namespace berth::trace {
namespace {

// `{"name":number,...}` of what for_each says.
template <class ForEach>
void append_object(std::string& out, ForEach for_each) {
  out += '{';
  for_each([&out](const char* name, auto number) {
    if (out.back() != '{') out += ',';
    append_string(out, name);
    out += ':';
    if constexpr (std::is_same_v<decltype(number), bool>) {
      out += number ? "true" : "false";
    } else {
      append_number(out, number);
    }
  });
  out += '}';
}

// `"key":{...}`, or null.
template <class Statistics, class ForEach>
void append_member(std::string& out, const char* key, const std::optional<Statistics>& of, ForEach for_each) {
  ((out += ",\n\"") += key) += "\":";
  if (!of) {
    out += "null";
  } else {
    append_object(out, [&](auto f) { for_each(*of, f); });
  }
}

}  // namespace

void add(snapshot& s, const pool& p) {
  s.failed = p.last_failure();  // first: the pool's peaks are never below those of a failure before
  s.pool = p.statistics();
  s.options = p.options();
  s.device = p.get_device().statistics();
}

std::string to_json(const snapshot& s) {
  std::string out = "{\"format\":\"berth-snapshot/1\",\"ended\":";
  out += s.ended ? "true" : "false";
  append_number(out += ",\"forgotten\":", s.forgotten);
  append_number(out += ",\"dropped\":", s.dropped);
  append_member(out, "pool", s.pool, [](auto& of, auto f) { for_each_pool_field(of, f); });
  if (s.options) append_member(out, "options", s.options, [](auto& of, auto f) { for_each_option_field(of, f); });
  if (s.failed) {
    append_number(out += ",\n\"failed\":{\"size\":", s.failed->size);
    append_object(out += ",\"pool\":", [&](auto f) { for_each_pool_field(s.failed->at, f); });
    out += '}';
  }
  append_member(out, "device", s.device, [](auto& of, auto f) { for_each_device_field(of, f); });
  append_member(out, "allocation", s.allocation, [](auto& of, auto f) {
    f("count", of.count);
    f("mean_us", of.mean_us);
    f("longest_us", of.longest_us);
  });
  out += ",\n\"sites\":[";
  for (const site& one : s.sites) {
    if (out.back() != '[') out += ',';
    append_string(out += '[', one.file);
    append_number(out += ',', one.line);
    out += ']';
  }
  out += "],\n\"events\":[";
  for (const event& e : s.events) {
    if (out.back() != '[') out += ',';
    append_number(out += e.allocate ? "\n[\"a\"," : "\n[\"f\",", e.address);
    append_number(out += ',', e.size);
    for (const std::uint32_t n : {e.stream, e.thread}) append_number(out += ',', n);
    append_number(out += ',', e.t_us);
    append_number(out += ',', e.site);
    out += ']';
  }
  return out + "]}\n";
}

measurements measure(const snapshot& s) noexcept {
  measurements m;
  if (s.allocation && s.allocation->count != 0) m.allocation_us = s.allocation->mean_us;
  if (s.pool && s.pool->allocations != 0) {
    m.fragmentation = use_of(s.failed ? s.failed->at : *s.pool).fragmentation();
    m.pool_hits = s.pool->pool_hit_rate();
  }
  if (s.device && s.device->direct_bytes + s.device->staged_bytes != 0) m.zero_copy = s.device->zero_copy_rate();
  return m;
}

log to_log(const snapshot& s) {
  log out;
  out.reserve(s.events.size());
  std::unordered_map<std::uint64_t, std::uint64_t> ids;  // by address
  std::uint64_t next = 0;
  for (const event& e : s.events) {
    if (e.allocate) ids[e.address] = next++;
    out.push_back({e.allocate, e.stream, e.thread, ids[e.address], e.size, e.t_us});
  }
  return out;
}

std::vector<event> alive(const snapshot& s) {
  const std::vector<std::size_t> other = partners(s.events);
  std::vector<event> out;
  for (std::size_t i = 0; i < s.events.size(); ++i) {
    if (s.events[i].allocate && other[i] == no_event) out.push_back(s.events[i]);
  }
  return out;
}

}  // namespace berth::trace
