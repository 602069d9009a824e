// berth who SNAPSHOT ADDRESS: the owner of an address, now or formerly, in a snapshot of a recorder.
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "berth/model/input_error.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/printable.hpp"
#include "tool/trace_input.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

struct known_block {
  trace::event asked;
  std::optional<trace::event> freed;
};

// Returns every address that was ever a block's start, and the last block there.
std::map<std::uint64_t, known_block> blocks_of(const trace::snapshot& s) {
  std::map<std::uint64_t, known_block> all;
  for (const trace::event& e : s.events) {
    if (e.allocate) {
      all[e.address] = {e, {}};
    } else if (const auto at = all.find(e.address); at != all.end()) {
      at->second.freed = e;
    }
  }
  return all;
}

bool holds(const known_block& b, std::uint64_t address) {
  return address >= b.asked.address && address - b.asked.address < std::max<bytes>(b.asked.size, 1);
}

struct found_block {
  const known_block* block = nullptr;  // the live one, or of those that are gone the one freed last
  const known_block* below = nullptr;  // live ones, that do not hold the address
  const known_block* above = nullptr;
};

found_block look_up(const std::map<std::uint64_t, known_block>& all, std::uint64_t address) {
  found_block a;
  for (const auto& [start, b] : all) {
    if (holds(b, address)) {
      const bool newer = a.block == nullptr || (a.block->freed && (!b.freed || b.freed->t_us >= a.block->freed->t_us));
      if (newer) a.block = &b;
    } else if (!b.freed && start <= address) {
      a.below = &b;
    } else if (!b.freed && a.above == nullptr) {
      a.above = &b;
    }
  }
  return a;
}

nlohmann::ordered_json json_of(const trace::snapshot& s, const known_block* b) {
  if (b == nullptr) return nullptr;
  nlohmann::ordered_json out{
      {"address", b->asked.address}, {"size", b->asked.size},     {"place", place_of(s, b->asked.site)},
      {"stream", b->asked.stream},   {"thread", b->asked.thread}, {"since_us", b->asked.t_us},
      {"freed_us", nullptr},         {"freed_place", nullptr}};
  if (b->freed) out.update({{"freed_us", b->freed->t_us}, {"freed_place", place_of(s, b->freed->site)}});
  return out;
}

std::string text_of(const trace::snapshot& s, const known_block& b) {
  return "block of " + human_exactly(b.asked.size) + formatted(" at 0x%" PRIx64 ", asked for at ", b.asked.address) +
         printable(place_of(s, b.asked.site)) +
         formatted(" by thread %u for stream %u, %.3f us after the start", b.asked.thread, b.asked.stream,
                   b.asked.t_us);
}

void print(const trace::snapshot& s, std::uint64_t address, const found_block& a) {
  if (a.block == nullptr) {
    std::printf("0x%" PRIx64 ": in no block that the snapshot knows\n", address);
  } else {
    std::printf("0x%" PRIx64 ": byte %" PRIu64 " of the %s%s\n", address, address - a.block->asked.address,
                a.block->freed ? "freed " : "", text_of(s, *a.block).c_str());
  }
  if (a.block != nullptr && a.block->freed) {
    std::printf("  freed  at %s by thread %u, %.3f us after the start\n",
                printable(place_of(s, a.block->freed->site)).c_str(), a.block->freed->thread, a.block->freed->t_us);
  }
  if (a.below != nullptr) {
    std::printf("  below  %" PRIu64 " bytes behind the end of the %s\n",
                address - a.below->asked.address - a.below->asked.size, text_of(s, *a.below).c_str());
  }
  if (a.above != nullptr) {
    std::printf("  above  %" PRIu64 " bytes before the %s\n", a.above->asked.address - address,
                text_of(s, *a.above).c_str());
  }
  if (s.dropped != 0 || s.forgotten != 0) {
    std::printf("  (the recorder forgot %" PRIu64 " events and lost %" PRIu64 ")\n", s.forgotten, s.dropped);
  }
}

std::uint64_t read_address(const std::string& text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  const char* const begin = text.data() + (is_hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  std::uint64_t address = 0;
  const auto [at, wrong] = std::from_chars(begin, end, address, is_hex ? 16 : 10);
  if (wrong != std::errc{} || at != end) {
    throw usage_error("ADDRESS: '" + text + "' is no address, such as 0x7f3a1000 or 4096");
  }
  return address;
}

}  // namespace

std::function<int()> declare_who(CLI::App& app) {
  struct call {
    std::string file;
    std::string address;
    bool json = false;
  };
  auto c = std::make_shared<call>();
  app.add_option("SNAPSHOT", c->file, "A snapshot of a recorder (JSON); - is standard input")->required();
  app.add_option("ADDRESS", c->address, "As 0x7f3a1000, or decimal: of a device's memory too")->required();
  app.add_flag("--json", c->json, "One JSON object on standard output");
  app.footer("Exit status 1: no live block holds the address.");
  return [c]() -> int {
    const std::uint64_t address = read_address(c->address);
    const trace_input input = read_trace_input(c->file);
    const auto* const s = std::get_if<trace::snapshot>(&input);
    if (s == nullptr) throw model::input_error(c->file, "is no snapshot of a recorder");
    const auto all = blocks_of(*s);
    const found_block a = look_up(all, address);
    const bool alive = a.block != nullptr && !a.block->freed;
    if (c->json) {
      print_json(nlohmann::ordered_json{{"address", address},
                                        {"state", alive                ? "alive"
                                                  : a.block != nullptr ? "freed"
                                                                       : "unknown"},
                                        {"block", json_of(*s, a.block)},
                                        {"below", json_of(*s, a.below)},
                                        {"above", json_of(*s, a.above)}});
    } else {
      print(*s, address, a);
    }
    return static_cast<int>(alive ? done : answer_is_no);
  };
}

}  // namespace berth::tool
