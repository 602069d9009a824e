// berth plan DIR --shard i/n --out DIR: many problems, by any number of calls (Slurm arrays, GNU parallel).
//
// The files of DIR are dealt out by their content, so that calls need not know of each other: a file that is added
// changes no other's shard, and another number of shards moves few. Each call writes one file, OUT/shard-i-of-n.jsonl,
// a JSON line a problem as it is planned: {"file", "key", "plan"} or
// {"file", "key", "error"}. A killed call is called again. It keeps the lines whose key, a hash of the file and the
// options, is still right, and whose plan passes verify() with its certificate: also those of OUT/shard-i-of-*.jsonl,
// for other numbers of shards. It does all others again, also a line that was cut off and an answer without a plan.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "berth/core/bytes.hpp"
#include "berth/plan/solve.hpp"

namespace berth::tool {

struct folder_call {
  std::string folder;
  std::string out;
  std::string cache;      // a folder or a URL
  std::size_t shard = 1;  // of ...
  std::size_t shards = 1;
  std::string rules;
  std::optional<bytes> capacity;
  std::string effort;
  plan::options options;  // without a stop: a plan that was cut short is not worth keeping
  bool json = false;
  bool quiet = false;
};

// Splits "2/8" in two, from 1/1 on. Throws usage_error.
void parse_shard(const std::string& text, folder_call& call);

// Returns the exit status. Throws usage_error, and input_error behind the last problem if some could not be planned.
int plan_folder(const folder_call& call);

}  // namespace berth::tool
