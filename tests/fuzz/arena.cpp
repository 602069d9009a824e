// An arena that serves graphs in turn, of other sizes and other nodes, against runs without reuse. Each graph runs
// right where it is bound, states keep their bytes, and a refused graph changes nothing.
#include "berth/graph/arena.hpp"

#include <optional>

#include "berth/pool/pool.hpp"
#include "fuzz/graphs.hpp"
#include "graph/random_graph.hpp"

using namespace berth;

namespace {

class game {
 public:
  game(const std::uint8_t* data, std::size_t size)
      : c_{data, std::min<std::size_t>(size, 48)}, host_{device::open("host").value()}, stream_{host_} {
    // The bytes behind the choices of the game are graphs': two, each in three sizes.
    const std::size_t rest = size > 48 ? size - 48 : 0;
    for (const bytes scale : {bytes{2}, bytes{1}, bytes{3}}) {
      add({data + (size - rest), rest / 2}, scale);
      add({data + (size - rest / 2), rest / 2}, scale);
    }
    pool_.emplace(host_, pool_options{.limit = bytes{4} << 20, .cache_bytes = 0, .report_leaks = false});
  }

  void play() {
    if (graphs_.empty()) return;
    reserve();
    for (int turns = 0; arena_ && !c_.empty() && turns < 30; ++turns) turn();
    arena_.reset();
    fuzz::require(pool_->statistics().live == 0, "an arena gives back what it took");
  }

 private:
  void add(fuzz::choices from, bytes scale) {
    graph g = fuzz::graph_maker{from, scale}.made();
    if (g.fault().ok() && fuzz::can_run(g) && g.nodes().size() > 1) graphs_.push_back(std::move(g));
  }
  const graph& any() { return graphs_[c_.byte() % graphs_.size()]; }

  void reserve() {
    constexpr change_policy policies[] = {change_policy::grow, change_policy::grow, change_policy::replan,
                                          change_policy::fail};
    arena_options o;
    o.search.work = plan::effort::fast;
    o.on_change = c_.of(policies);
    o.cached_plans = 1 + c_.byte() % 4;
    if (c_.byte() % 4 == 0) o.growth_step = 1 + c_.byte() * bytes{100};
    if (c_.byte() % 8 == 0) o.budget = c_.byte() * bytes{16};
    graph_fault why;
    std::vector<const graph*> family;
    for (unsigned k = c_.byte() % 3; k > 0; --k) family.push_back(&any());
    now_ = family.empty() ? &any() : family.front();
    auto made = family.empty() ? arena::reserve(*now_, *pool_, stream_, o, &why)
                               : arena::reserve(std::span<const graph* const>{family}, *pool_, stream_, o, &why);
    fuzz::require(made || !why.text.empty() || made.error().code == errc::out_of_memory, "a refusal says why");
    if (!made) return;
    arena_.emplace(std::move(*made));
    run();
  }

  void turn() {
    switch (c_.byte() % 8) {
      case 0: (void)arena_->trim(); return require_states();
      case 1: {
        if (now_->values().empty()) return;
        held_value_ = {static_cast<std::uint32_t>(c_.below(now_->values().size()))};
        held_ = arena_->handle(held_value_);
        const value_kind kind = (*now_)[(*now_)[held_value_].root].kind;
        // A value outside gets another address without a word to its handles.
        held_of_ = kind == value_kind::constant || kind == value_kind::external ? nullptr : now_;
        return;
      }
      default: bind(any());
    }
  }

  // Places for all values outside, at which nothing is read.
  static std::vector<attachment> outside_of(const graph& g) {
    static std::byte there;
    std::vector<attachment> all;
    for (std::uint32_t v = 0; v < g.values().size(); ++v) {
      const value_kind kind = g.values()[v].kind;
      if (kind == value_kind::constant || kind == value_kind::external)
        all.push_back({{v}, &there, g.values()[v].size});
    }
    return all;
  }

  void bind(const graph& next) {
    const bytes size = arena_->size();
    std::vector<void*> before;
    for (std::uint32_t v = 0; v < now_->values().size(); ++v) before.push_back(arena_->address({v}));
    graph_fault why;
    const auto bound = arena_->bind(next, outside_of(next), &why);
    if (!bound) {
      require_states();
      fuzz::require(arena_->size() == size, "what is refused leaves the block");
      for (std::uint32_t v = 0; v < before.size(); ++v) {
        fuzz::require(arena_->address({v}) == before[v], "what is refused leaves every address");
      }
      return;
    }
    fuzz::require((*bound == bind_outcome::grown) == (arena_->size() > size), "a larger block is said");
    now_ = &next;
    require_states();
    if (held_of_ != nullptr && held_.get()) {
      fuzz::require(*held_.get() == arena_->address(held_value_), "a handle that holds is right");
    }
    if (*bound != bind_outcome::unchanged) held_of_ = nullptr;
    run();
  }

  [[nodiscard]] test::placement_of places(test::outside_memory& outside) {
    return {[this, &outside](value_id v) {
              return outside.has(v) ? outside.value(v) : static_cast<std::byte*>(arena_->address(v));
            },
            [this](node_id n) { return static_cast<std::byte*>(arena_->workspace(n)); }};
  }
  void run() {
    test::outside_memory outside{*now_, false};
    const test::placement_of where = places(outside);
    test::fill_from_outside(*now_, where);
    std::vector<std::uint32_t> order(now_->nodes().size());
    std::iota(order.begin(), order.end(), 0u);
    fuzz::require(test::run_nodes(*now_, where, order) == test::run_without_reuse(*now_), "a bound graph runs right");
    states_ = states();
  }
  // All graphs of an arena have the same states, by name.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> states() const {
    std::map<std::string, std::vector<std::byte>> all;
    for (std::uint32_t v = 0; v < now_->values().size(); ++v) {
      const value& it = now_->values()[v];
      if (it.kind != value_kind::state) continue;
      const auto* const from = static_cast<const std::byte*>(arena_->address({v}));
      all[it.name].assign(from, from + it.size);
    }
    return all;
  }
  void require_states() {
    (void)stream_.synchronize();  // they are copied in stream order
    fuzz::require(states() == states_, "states keep their bytes");
  }

  fuzz::choices c_;
  device host_;
  stream stream_;
  std::vector<graph> graphs_;
  std::optional<pool> pool_;
  std::optional<arena> arena_;
  const graph* now_ = nullptr;
  std::map<std::string, std::vector<std::byte>> states_;
  placed_value held_;
  value_id held_value_;
  const graph* held_of_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{data, size}.play();
  return 0;
}
