// An arena: one block of a pool in which a whole graph lives, by a plan.
//
// reserve() plans the graph and takes one block. bind() is cheap and is called before every run of a graph that may
// have changed; address() then is base + offset.
#pragma once

#include "berth/core/bytes.hpp"
#include "berth/core/result.hpp"
#include "berth/graph/graph.hpp"
#include "berth/plan/solve.hpp"
#include "berth/pool/pool.hpp"

namespace berth {

class arena {
 public:
  [[nodiscard]] static result<arena> reserve(const graph& g, pool& p, stream& s, const plan::options& o = {});

  // Where v's bytes are (a view's: inside its root); null for constants and externals, which live outside.
  [[nodiscard]] void* address(value_id v) const noexcept;
  // Where node n's workspace is; null where it asked for none.
  [[nodiscard]] void* workspace(node_id n) const noexcept;

  [[nodiscard]] const plan::plan& get_plan() const noexcept;
  [[nodiscard]] bytes size() const noexcept;

 private:
  block block_;
};

}  // namespace berth
