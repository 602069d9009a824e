// Plans kept in stores that the tool and Python share: names of entries, their bytes, and the shard of a file.
//
// An entry is SHA-256 of the rest; a signature (32 zeros without a key); the layout's version in a byte; the seconds of
// solving as a float; the packed plan, in the problem's own order of buffers. Little endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "berth/plan/solve.hpp"
#include "model/packed.hpp"

namespace berth::model {

// A release that changes a plan raises this, and with it all names. tests/python/many_test.py notices such a change.
inline constexpr std::uint64_t planner_revision = 1;

// Returns the 32 bytes of SHA-256 (FIPS 180-4).
[[nodiscard]] std::string sha256(std::string_view text);
[[nodiscard]] std::string hex(std::string_view bytes);

inline constexpr std::uint64_t most_shards = 0xffffffff;

// Returns which of `shards` plans a file with this content, from 0: the jump hash of Lamping and Veach, so that another
// number of shards moves as few files as possible. Contract: shards from 1 to most_shards.
[[nodiscard]] std::uint64_t shard_of(std::string_view content, std::uint64_t shards);

// Returns the text that stands before a problem where its name is hashed: the revision and the options.
[[nodiscard]] std::string options_text(const std::string& effort, const plan::options& options);
[[nodiscard]] std::string name_of(const ordered& problem, const std::string& effort, const plan::options& options);

[[nodiscard]] std::string entry_of(const plan::plan& answer, const ordered& problem, float seconds);

inline constexpr std::string_view unproved = "no proof";

// Returns the plan of an entry that needs no trust: verified, and proved by its certificate. Otherwise nothing, and the
// reason in `why`.
[[nodiscard]] std::optional<plan::plan> plan_of_entry(const problem_file& file, const ordered& problem,
                                                      std::string_view entry, plan_texts& texts, std::string& why);

}  // namespace berth::model
