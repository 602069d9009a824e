// berth devices: every device that can be opened here with its rules, and why the others cannot.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/op/device_operators.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/progress_line.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

using nlohmann::json;

// The result of a fill and two copies on a device.
struct device_check {
  bool ok = false;
  std::string why;
  device_statistics statistics{};
};

// A fill and a copy on the device, and its bytes read back through pinned memory.
result<bool> copy_and_fill(const device& d, stream& s, void* block, void* other, void* pinned, bytes size) {
  if (auto r = s.fill(block, std::byte{0x5a}, size); !r) return r.error();
  if (auto r = s.copy(other, block, size); !r) return r.error();
  if (auto r = s.copy(pinned, other, size); !r) return r.error();
  if (auto r = s.synchronize(); !r) return r.error();
  const auto* bytes_read = static_cast<const std::byte*>(d.host_address(pinned));
  if (bytes_read == nullptr) return false;
  for (bytes i = 0; i < size; ++i) {
    if (bytes_read[i] != std::byte{0x5a}) return false;
  }
  return true;
}

device_check check(const device& d) {
  constexpr bytes size = bytes{1} << 20;
  device_check found;
  auto s = stream::create(d);
  if (!s) {
    found.why = s.error().what;
    return found;
  }
  const std::array kinds{memory_kind::device, memory_kind::device, memory_kind::pinned};
  std::array<void*, 3> blocks{};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    auto block = d.allocate(size, kinds[i]);
    if (block) blocks[i] = *block;
    if (!block) found.why = block.error().what;
  }
  if (found.why.empty()) {
    const auto same = copy_and_fill(d, *s, blocks[0], blocks[1], blocks[2], size);
    found.ok = same && *same;
    if (!same) found.why = same.error().what;
    if (same && !*same) found.why = "the bytes that came back are not those that were written";
  }
  found.statistics = d.statistics();
  (void)s->synchronize();  // so that no operation uses the blocks
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (blocks[i] != nullptr) d.free(blocks[i], size, kinds[i]);
  }
  return found;
}

// Returns the owner of the operators that compute there for `berth run`; null: there are none.
const char* operators(const std::string& name) {
  const auto d = device::open(name);
  if (!d) return nullptr;
  const auto by = op::device_server(*d);
  if (!by) return nullptr;
  return *by ? "the driver's" : "the host's";
}

json rules_json(const rules::placement& r) {
  return {{"name", r.name},         {"start_alignment", r.start_alignment}, {"size_granularity", r.size_granularity},
          {"tail_pad", r.tail_pad}, {"copy_alignment", r.copy_alignment},   {"source", r.source}};
}

json device_json(const device_listing& one) {
  json j{{"name", one.name}, {"available", one.available}};
  if (!one.available) {
    j["reason"] = one.reason;
    return j;
  }
  const device_properties& p = one.properties;
  j["description"] = p.description;
  j["simulated"] = p.simulated;
  j["host_accessible"] = p.host_accessible;
  j["total_memory_bytes"] = p.total_memory == 0 ? json(nullptr) : json(p.total_memory);
  j["rules"] = rules_json(p.rules);
  j["pinned_rules"] = rules_json(p.pinned_rules);
  j["notes"] = p.notes;
  const char* whose = operators(one.name);
  j["operators"] = whose != nullptr ? json(whose) : json(nullptr);
  j["virtual_memory"] = nullptr;
  if (p.virtual_memory) j["virtual_memory"] = {{"granule_bytes", p.granule}, {"max_mappings", p.max_mappings}};
  return j;
}

json check_json(const device_check& found) {
  json j{{"ok", found.ok},
         {"direct_copies", found.statistics.direct_copies},
         {"staged_copies", found.statistics.staged_copies},
         {"zero_copy_rate", found.statistics.zero_copy_rate()},
         {"zero_copy_use", found.statistics.zero_copy_use()}};
  if (!found.ok) j["reason"] = found.why;
  return j;
}

void print_rules(const char* of, const rules::placement& r) {
  std::printf("  %-10s start %" PRIu64 ", size %" PRIu64 ", tail %" PRIu64 ", copies %" PRIu64 "  [%.*s]\n", of,
              r.start_alignment, r.size_granularity, r.tail_pad, r.copy_alignment, static_cast<int>(r.name.size()),
              r.name.data());
}

void print(const device_listing& one) {
  if (!one.available) {
    std::printf("%-10s not here: %s\n", printable(one.name).c_str(), printable(one.reason).c_str());
    return;
  }
  const device_properties& p = one.properties;
  std::printf("%-10s %s\n", printable(one.name).c_str(), printable(p.description).c_str());
  if (p.total_memory != 0) {
    std::printf("  %-10s %s%s\n", "memory", human(p.total_memory).c_str(),
                p.host_accessible ? ", the host may read and write it" : "");
  }
  print_rules("device", p.rules);
  print_rules("pinned", p.pinned_rules);
  if (p.virtual_memory) {
    const bool limited = p.max_mappings != std::numeric_limits<std::size_t>::max();
    const std::string mappings =
        limited ? "up to " + std::to_string(p.max_mappings) + " mappings" : "any number of mappings";
    std::printf("  %-10s granules of %s, %s\n", "virtual", human(p.granule).c_str(), mappings.c_str());
  }
  const char* whose = operators(one.name);
  std::printf("  %-10s %s\n", "operators", whose != nullptr ? whose : "none: `berth run` refuses it");
  for (const std::string& note : p.notes) std::printf("  %-10s %s\n", "note", note.c_str());
}

void print(const device_check& found) {
  std::printf("  %-10s %s", "check", found.ok ? "1 MiB filled, copied and read back" : "FAILED: ");
  if (!found.ok) std::printf("%s", found.why.c_str());
  std::printf("; %.0f %% of the bytes without a bounce\n", 100 * found.statistics.zero_copy_rate());
}

int run(bool as_json, bool with_check) {
  bool all_ok = true;
  json devices = json::array();
  for (const device_listing& one : list_devices()) {
    json j = device_json(one);
    if (!as_json) print(one);
    if (with_check && one.available && one.properties.has_memory) {
      const progress_line line{!as_json, "checking " + printable(one.name)};
      const auto opened = device::open(one.name);
      const device_check found = opened ? check(*opened) : device_check{.why = opened.error().what};
      all_ok = all_ok && found.ok;
      j["check"] = check_json(found);
      if (!as_json) print(found);
    }
    devices.push_back(std::move(j));
  }
  if (as_json) print_json(json{{"devices", std::move(devices)}});
  return all_ok ? done : answer_is_no;
}

}  // namespace

std::function<int()> declare_devices(CLI::App& app) {
  auto as_json = std::make_shared<bool>(false);
  auto with_check = std::make_shared<bool>(false);
  app.add_flag("--json", *as_json, "One JSON object on standard output");
  app.add_flag("--check", *with_check, "Run a fill and a copy on each device and look at the bytes");
  return [as_json, with_check] { return run(*as_json, *with_check); };
}

}  // namespace berth::tool
