// The memories that a call names: of a known target, or by hand.
#pragma once

#include <string>
#include <vector>

#include "berth/model/memories.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

struct memories_call {
  std::string target;                // --memories
  std::vector<std::string> by_hand;  // --memory, each
  bool no_copies = false;
  [[nodiscard]] bool any() const { return !target.empty() || !by_hand.empty() || no_copies; }
};

// Declares --memories, --memory and --no-copies.
void add_memory_options(CLI::App& app, memories_call& call);

// Returns the target's memories, then those by hand. Throws usage_error: none, a text that is no memory, two of one
// name.
[[nodiscard]] std::vector<model::hierarchy_memory> memories_named(const memories_call& call);

}  // namespace berth::tool
