// The meanings of a graph's names, while the graphs inside it are read one after another.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::model {

// One table for all depths: a copy for every inner graph would be the square of the file.
class scoped_names {
 public:
  // Returns the meaning, or the name itself if it has none.
  [[nodiscard]] const std::string& operator()(const std::string& name) const {
    const auto found = of_.find(name);
    return found == of_.end() || !found->second ? name : *found->second;
  }
  void say(const std::string& name, std::optional<std::string> meaning) {
    const auto at = of_.try_emplace(name).first;
    said_.emplace_back(at, at->second);
    at->second = std::move(meaning);
  }
  // It is the inner graph's own.
  void hide(const std::string& name) { say(name, std::nullopt); }

  // Meanings given while one lives are forgotten with it.
  class inner_graph {
   public:
    explicit inner_graph(scoped_names& names) : names_{names}, before_{names.said_.size()} {}
    ~inner_graph() {
      for (auto& said = names_.said_; said.size() > before_; said.pop_back()) {
        said.back().first->second = std::move(said.back().second);
      }
    }
    inner_graph(const inner_graph&) = delete;
    inner_graph& operator=(const inner_graph&) = delete;

   private:
    scoped_names& names_;
    std::size_t before_;
  };

 private:
  using table = std::map<std::string, std::optional<std::string>>;
  table of_;
  std::vector<std::pair<table::iterator, std::optional<std::string>>> said_;  // and what stood there before
};

}  // namespace berth::model
