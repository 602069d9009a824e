// What `berth report` and `berth view` read: a plan, an allocation log or a snapshot. The content decides which.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/trace/log.hpp"
#include "berth/trace/picture.hpp"
#include "berth/trace/snapshot.hpp"

namespace berth::tool {

// A plan as `berth plan --json` and `--out FILE.json` write it.
struct plan_facts {
  bytes arena = 0;
  bytes lower_bound = 0;
  bool optimal = false;
  std::string solver;
  std::vector<trace::rectangle> buffers;  // inside the arena
};

// What the picture of a plan shows; the title is left to the caller.
[[nodiscard]] trace::picture picture_of(const plan_facts& plan);

using trace_input = std::variant<plan_facts, trace::log, trace::snapshot>;

// Throws model::input_error: none of them, or one that contradicts itself.
[[nodiscard]] trace_input read_trace_input(const std::string& path);

// A block or buffer of any of them, from `lower` to `upper` (before it): ticks of a plan, numbers of events else.
struct life {
  std::string what;  // a plan's buffer; "FILE:LINE" of a snapshot; "N bytes each" of a log
  bytes size = 0;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};
[[nodiscard]] std::vector<life> lives(const trace_input& input);

// "FILE:LINE", or "unknown place". `site` as in trace::event.
[[nodiscard]] std::string place_of(const trace::snapshot& s, std::uint32_t site);

}  // namespace berth::tool
