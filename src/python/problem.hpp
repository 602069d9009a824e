// berth.Problem: a problem as a file would hold it, so that errors are the same.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "berth/model/problem_file.hpp"
#include "python/refusal.hpp"
#include "python/solved.hpp"

namespace berth::python {

class problem {
 public:
  explicit problem(model::problem_file file);

  // `size` may be a text of dimensions. `live` is a pair of ticks or None, `lifetimes` a list of such pairs or None; a
  // number has an __index__.
  static problem create(const py::object& alignment, const py::object& granularity, const py::object& capacity,
                        const py::object& max_slab, const std::optional<std::string>& rules);

  index add(const py::object& size, const py::object& live, const py::object& lifetimes, std::optional<std::string> id,
            const py::object& alignment, const py::object& offset, const py::object& hint,
            std::optional<index> alias_group, const std::vector<std::string>& pools);
  void add_dimension(std::string name, const py::object& least, const py::object& most);
  index add_pool(std::string name, const py::object& capacity, const py::object& alignment, const py::object& reserved,
                 double cost);
  void add_use(index buffer, const py::object& at, double touched, bool write, const std::optional<std::string>& pool);
  void add_step(const py::object& at, double duration);
  void add_link(const std::string& from, const std::string& to, double bandwidth, double latency);
  void set_conflicts(const std::optional<std::vector<std::pair<index, index>>>& pairs);
  void separate(index a, index b);
  void penalize(index a, index b, double weight);

  // Makes a plan of foreign offsets, and counts its arena.
  [[nodiscard]] solved_pointer plan_of(const py::object& offsets, const std::vector<std::string>& pools,
                                       std::vector<index> slabs) const;
  [[nodiscard]] std::optional<std::string> verify(const solved& answer) const;
  [[nodiscard]] std::string format(const solved& answer, const std::string& form) const;
  [[nodiscard]] bytes max_live() const;
  [[nodiscard]] std::vector<std::string> ids() const;
  [[nodiscard]] std::vector<std::string> pools_of(const solved& answer) const;
  [[nodiscard]] std::size_t size() const { return file_->problem.buffers.size(); }

  // Returns the problem as it is now: later changes do not reach it.
  [[nodiscard]] file_pointer file() const { return file_; }

 private:
  // Returns the size at the largest values, and its terms if there are dimensions.
  [[nodiscard]] std::pair<bytes, std::vector<plan::size_term>> size_of(const py::object& size) const;
  // Returns the file to change: a copy, if a plan or a solver under way holds it too.
  model::problem_file& to_change();
  [[nodiscard]] plan::pair checked(index a, index b) const;
  [[nodiscard]] static index memory(const plan::problem& of, const std::string& name);

  std::shared_ptr<model::problem_file> file_;
  std::unordered_set<std::string> ids_;  // of the first ids_of_ buffers: made when a name is added
  std::size_t ids_of_ = 0;
};

// Problem.from_arrays: makes one buffer an item of arrays of integers, of any width and stride, or lists. `alignment`
// and `offset` are arrays, or None; an offset is a pin.
[[nodiscard]] problem from_arrays(const py::object& size, const py::object& lower, const py::object& upper,
                                  const py::object& alignments, const py::object& offset,
                                  const std::optional<std::vector<std::string>>& ids, const py::object& alignment,
                                  const py::object& granularity, const py::object& capacity, const py::object& max_slab,
                                  const std::optional<std::string>& rules);

}  // namespace berth::python
