// Sizes that the caller gives to dimensions that a file leaves open, and dimensions without one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "berth/model/onnx.hpp"
#include "model/onnx/messages.hpp"

namespace berth::model {

class said_dimensions {
 public:
  explicit said_dimensions(const dimensions& said);

  // Returns dimension d of a value: the file's, or the caller's size of "VALUE.d" or of the file's name for it. A size
  // of -1 in the file is none. `dim`: null if the file gives none.
  [[nodiscard]] std::optional<std::int64_t> find(const std::string& value, int d, const wire::dimension* dim);
  // Returns the same; one that stays open is kept for complaint(), and is 1.
  [[nodiscard]] std::int64_t find_or_note(const std::string& input, int d, const wire::dimension& dim);
  // Returns the caller's value of the name itself ("x.length").
  [[nodiscard]] std::optional<std::int64_t> find(const std::string& name);
  // Keeps for complaint() that `what` is open, and the option that helps: "NAME=N".
  void note(const std::string& what, const std::string& name);
  // Names every input's open dimension and the option that helps, in one line; empty if there is none.
  [[nodiscard]] std::string complaint() const;
  [[nodiscard]] bool empty() const { return said_.empty(); }
  // Returns a name given by the caller that matched no dimension; empty if all matched.
  [[nodiscard]] std::string unused() const { return unused_.empty() ? "" : *unused_.begin(); }

  // "say it with --dim NAME=N"
  [[nodiscard]] static std::string how_to_say(const std::string& value, int d, const std::string& name);

 private:
  const dimensions& said_;
  std::set<std::string> unused_;
  std::string open_, to_say_;
  int opened_ = 0;
  std::set<std::string> asked_;  // names in to_say_
};

}  // namespace berth::model
