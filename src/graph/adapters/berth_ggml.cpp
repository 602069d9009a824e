// ggml's graph allocator, the eight functions of ggml-alloc.h, over Berth. See berth/graph/adapters/ggml.h.
//
// An allocator keeps eight plans. A graph of one of them is compared and placed in one walk, without a call into a
// backend that asks for none. Any other graph is read and planned with effort fast. If its memory would have to grow,
// and fast has not proved that no plan needs less, alloc_graph tries all greedy orders and reserve searches.
//
// With several buffer types alloc_graph serves by each plan whose homes are certain: known_graph::may_follow(). It
// leaves any other change to reserve_n, as in ggml: the scheduler waits for work under way before it calls that. Only
// reserve_n knows the buffer type of each node.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include "berth/graph/adapters/ggml.h"
#include "ggml-alloc.h"
#include "ggml_graph.hpp"
#include "ggml_reader.hpp"
#include "ggml_sharing.hpp"

#if !defined(BERTH_GGML_STOCK) && defined(__ELF__)
#include <dlfcn.h>
#endif

namespace {
using namespace berth;
using namespace berth::ggml;

// ---- ggml's own ----

struct stock_functions {
  decltype(&ggml_gallocr_new_n) new_n = nullptr;
  decltype(&ggml_gallocr_free) free = nullptr;
  decltype(&ggml_gallocr_reserve_n_size) reserve_n_size = nullptr;
  decltype(&ggml_gallocr_reserve_n) reserve_n = nullptr;
  decltype(&ggml_gallocr_alloc_graph) alloc_graph = nullptr;
  decltype(&ggml_gallocr_get_buffer_size) get_buffer_size = nullptr;
};
}  // namespace

#if defined(BERTH_GGML_STOCK)
extern "C" {
ggml_gallocr_t ggml_stock_gallocr_new_n(ggml_backend_buffer_type_t*, int);
void ggml_stock_gallocr_free(ggml_gallocr_t);
void ggml_stock_gallocr_reserve_n_size(ggml_gallocr_t, struct ggml_cgraph*, const int*, const int*, size_t*);
bool ggml_stock_gallocr_reserve_n(ggml_gallocr_t, struct ggml_cgraph*, const int*, const int*);
bool ggml_stock_gallocr_alloc_graph(ggml_gallocr_t, struct ggml_cgraph*);
size_t ggml_stock_gallocr_get_buffer_size(ggml_gallocr_t, int);
}
#endif

// The type that ggml-alloc.h declares and leaves to the allocator.
struct ggml_gallocr {
  static constexpr std::uint64_t mark = 0x6265727468676761;  // no address, which is what ggml's own begins with
  std::uint64_t is_berths = mark;
  ggml_gallocr_t stock = nullptr;  // ggml's own does everything
  std::vector<std::shared_ptr<store>> stores;
  std::vector<std::uint32_t> store_of;              // by buffer id
  std::vector<std::unique_ptr<known_graph>> plans;  // most recently used first
  reader read;
  bool homes_known = false;  // the scheduler's last call was served: its homes are those of the first plan
  bool has_waited = false;   // the scheduler waited for its work, for a reserve that no graph has followed yet
  position_homes always{0};
  sharing joins;           // how stores that have no memory yet may become shared ones
  std::vector<store*> in;  // stores, as the walk takes them
  std::vector<std::uint32_t> homes;

  ~ggml_gallocr() {
    for (const auto& s : stores) s->remove(this);
  }
};

namespace {

constexpr std::size_t plans_kept = 8;

plan::options of(plan::effort level, std::uint64_t node_limit = 0) {
  plan::options o;
  o.work = level;
  o.node_limit = node_limit;
  return o;
}
const plan::options quickly = of(plan::effort::fast);
const plan::options greedily = of(plan::effort::normal, 1);  // the greedy orders, and no search
const plan::options patiently = of(plan::effort::normal);

// The time that a call may take to plan a graph. Effort fast gets half.
class time_limit {
 public:
  // Returns alloc_graph's. A call takes a millisecond in all, or three times as long as ggml.
  [[nodiscard]] static time_limit of_allocation(const ggml_cgraph* g) {
    return time_limit{std::max(0.5e-3, (g->n_nodes + g->n_leafs) * 0.3e-6)};
  }
  // Returns reserve's: BERTH_GGML_RESERVE_MS, or 20 ms.
  [[nodiscard]] static time_limit of_reserve() {
    const char* const said = std::getenv("BERTH_GGML_RESERVE_MS");
    if (said == nullptr) return time_limit{20e-3};
    char* end = nullptr;
    const double ms = std::strtod(said, &end);
    if (end != said && *end == '\0' && ms >= 0 && ms <= 1e9) return time_limit{ms * 1e-3};
    GGML_LOG_ERROR("berth: BERTH_GGML_RESERVE_MS=%s is not a number of milliseconds: 20\n", said);
    return time_limit{20e-3};
  }

  [[nodiscard]] bool has_rest() const { return spent() < all_ / 2; }
  // Return options that end with the first half, or with all of it.
  [[nodiscard]] plan::options first_half(plan::options o) const { return until(o, all_ / 2); }
  [[nodiscard]] plan::options rest(plan::options o) const { return until(o, all_); }

 private:
  using clock = std::chrono::steady_clock;
  explicit time_limit(double all) : all_{all} {}
  [[nodiscard]] double spent() const { return std::chrono::duration<double>(clock::now() - begin_).count(); }
  [[nodiscard]] plan::options until(plan::options o, double end) const {
    o.deadline_s = std::max(0.0, end - spent());
    return o;
  }

  clock::time_point begin_ = clock::now();
  double all_;
};

thread_local ggml_gallocr_t last_asked = nullptr;  // see berth_ggml_share()

const stock_functions& stock() {
#if defined(BERTH_GGML_STOCK)
  static const stock_functions it{ggml_stock_gallocr_new_n,          ggml_stock_gallocr_free,
                                  ggml_stock_gallocr_reserve_n_size, ggml_stock_gallocr_reserve_n,
                                  ggml_stock_gallocr_alloc_graph,    ggml_stock_gallocr_get_buffer_size};
#elif defined(__ELF__)
  static const stock_functions it = [] {
    stock_functions f;
    const auto find = [](auto& into, const char* name) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(RTLD_NEXT, name));
    };
    find(f.new_n, "ggml_gallocr_new_n");
    find(f.free, "ggml_gallocr_free");
    find(f.reserve_n_size, "ggml_gallocr_reserve_n_size");
    find(f.reserve_n, "ggml_gallocr_reserve_n");
    find(f.alloc_graph, "ggml_gallocr_alloc_graph");
    find(f.get_buffer_size, "ggml_gallocr_get_buffer_size");
    return f;
  }();
#else
  static const stock_functions it;
#endif
  return it;
}

// Returns ggml's own allocator in or behind g, or null. Interposed functions of ggml call one another by way of ours,
// with an allocator of their making.
ggml_gallocr_t stock_of(ggml_gallocr_t g) {
  return g->is_berths == ggml_gallocr::mark ? g->stock : g;
}

bool stock_is_asked_for() {
#if defined(__linux__)
  const char* const said = secure_getenv("BERTH_GGML");
#else
  const char* const said = std::getenv("BERTH_GGML");
#endif
  return said != nullptr && std::strcmp(said, "0") == 0 && stock().new_n != nullptr;
}

// Returns whether the running ggml is the one that this file was compiled for. Writes it to ggml's log at the first
// call.
bool is_this_ggml() {
#if defined(GGML_VERSION)
  static const bool right = [] {
    const bool same = std::strcmp(ggml_version(), GGML_VERSION) == 0;
    if (same) {
      GGML_LOG_INFO("berth " BERTH_VERSION ": allocates ggml's graphs, compiled for ggml " GGML_VERSION "\n");
    } else {
      GGML_LOG_ERROR("berth " BERTH_VERSION ": compiled for ggml " GGML_VERSION ", and this is ggml %s: not used\n",
                     ggml_version());
    }
    return same;
  }();
  return right;
#else
  return true;
#endif
}

// ---- sharing ----

// Makes `common` the allocator's store m. Rebases its plans when they are placed next.
void adopt(ggml_gallocr& a, std::size_t m, const std::shared_ptr<store>& common) {
  if (a.stores[m] != common) a.stores[m]->remove(&a);
  enter_once(common->sharers, &a);
  a.stores[m] = common;
  a.in[m] = common.get();
  a.homes_known = false;
}

// Takes the shared stores of this process or thread in place of the allocator's own ones without memory.
void join(ggml_gallocr& a) {
  if (!a.joins) return;
  for (std::size_t m = 0; m < a.stores.size(); ++m) {
    const store& own = *a.stores[m];
    if (own.is_shared() || !own.blocks.empty() || !a.joins.covers(own.type)) continue;
    if (const auto common = a.joins.find(own.type); common != nullptr) adopt(a, m, common);
  }
}

// Lets others find the stores that have memory now.
void offer(ggml_gallocr& a) {
  if (!a.joins) return;
  for (const auto& s : a.stores) {
    if (s->blocks.empty() || !a.joins.covers(s->type) || !can_be_shared(*s)) continue;
    if (a.joins.find(s->type) == nullptr) a.joins.add(s);
  }
}

// ---- plans ----

// Sets the homes. A leaf of no backend (no node reads it) goes to the last one, which is the host.
void set_homes(ggml_gallocr& a, const ggml_cgraph* g, const int* node_ids, const int* leaf_ids) {
  a.homes.clear();
  const auto add = [&](const int* ids, int count) {
    for (int i = 0; i < count; ++i) {
      const int id = ids != nullptr ? ids[i] : 0;
      a.homes.push_back(id < 0 ? a.store_of.back() : a.store_of[static_cast<std::size_t>(id)]);
    }
  };
  add(node_ids, g->n_nodes);
  add(leaf_ids, g->n_leafs);
}

// Reads and plans g for a.homes; returns null, with a line in ggml's log, if it has no right place.
std::unique_ptr<known_graph> make_plan(ggml_gallocr& a, const ggml_cgraph* g, const plan::options& search,
                                       const time_limit& limit, bool measuring) {
  if (const complaint wrong = a.read.read(g, a.in, a.homes, measuring); !wrong.empty()) {
    GGML_LOG_ERROR("berth: graph not allocated: %s\n", wrong.c_str());
    return nullptr;
  }
  auto made = std::make_unique<known_graph>();
  auto done = a.read.plan_it(limit.first_half(quickly), true, *made);
  if (done && !made->optimal() && !made->fits(a.in) && limit.has_rest())
    (void)a.read.plan_it(limit.rest(search), true, *made);
  // Alone in its memory, an allocator owes earlier graphs no more than ggml's does.
  if (!done && a.read.has_pins() && !a.stores.front()->is_shared()) done = a.read.plan_it(quickly, false, *made);
  if (done) return made;
  GGML_LOG_ERROR("berth: graph not allocated: %s (%llu)\n", done.error().what,
                 static_cast<unsigned long long>(done.error().number));
  return nullptr;
}

// Takes the memory for the plan of the graph read last. If that must grow and the graph reads from it, plans again,
// beside the old blocks instead of around the tensors read there. The new blocks have room for both plans, for when the
// same graph comes again.
bool make_room(ggml_gallocr& a, known_graph& made) {
  if (made.fits(a.in)) return true;
  const bool reads = a.read.has_pins();
  std::vector<std::vector<bytes>> wanted(a.stores.size());
  const auto want = [&] {
    for (std::size_t m = 0; m < wanted.size(); ++m) at_least(wanted[m], made.slabs(m));
  };
  want();
  if (reads) {
    if (!a.read.plan_it(quickly, false, made)) return false;
    want();
  }
  for (std::size_t m = 0; m < a.stores.size(); ++m) {
    if (!provide(*a.stores[m], &a, wanted[m], reads)) return false;
  }
  offer(a);
  return true;
}

known_graph& keep(ggml_gallocr& a, std::unique_ptr<known_graph> fresh) {
  if (a.plans.size() >= plans_kept) a.plans.pop_back();
  a.plans.insert(a.plans.begin(), std::move(fresh));
  return *a.plans.front();
}

known_graph& take_up(ggml_gallocr& a, std::size_t i) {
  std::rotate(a.plans.begin(), a.plans.begin() + static_cast<std::ptrdiff_t>(i),
              a.plans.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  return *a.plans.front();
}

bool placed(const ggml_tensor* t) noexcept {
  return t->data != nullptr || t->buffer != nullptr;
}

// Returns whether g has all its memory already, from an earlier call. Views may still be without a buffer.
bool has_all(const ggml_cgraph* g) {
  if (g->n_nodes > 0 && !placed(g->nodes[0]) && g->nodes[0]->view_src == nullptr) return false;
  const auto fine = [](const ggml_tensor* t) { return placed(t->view_src != nullptr ? t->view_src : t); };
  for (int i = 0; i < g->n_leafs; ++i) {
    if (!fine(g->leafs[i])) return false;
  }
  for (int i = 0; i < g->n_nodes; ++i) {
    if (!fine(g->nodes[i])) return false;
    for (const ggml_tensor* s : g->nodes[i]->src) {
      if (s != nullptr && !fine(s)) return false;
    }
  }
  return true;
}

bool show_views(const ggml_cgraph* g) {
  const auto show = [](ggml_tensor* t) {
    if (t == nullptr || t->view_src == nullptr || t->buffer != nullptr || t->view_src->buffer == nullptr) return true;
    return t->view_src->data != nullptr && ggml_backend_view_init(t) == GGML_STATUS_SUCCESS;
  };
  for (int i = 0; i < g->n_leafs; ++i) {
    if (!show(g->leafs[i])) return false;
  }
  for (int i = 0; i < g->n_nodes; ++i) {
    for (ggml_tensor* s : g->nodes[i]->src) {
      if (!show(s)) return false;
    }
    if (!show(g->nodes[i])) return false;
  }
  return true;
}

// Resets the buffers and initialises the tensors that `plan` has just placed, in ggml's order. Returns false if the
// backend refused a tensor, or splits one otherwise than when it was planned; that plan is of no use then.
bool finish(ggml_gallocr& a, known_graph& plan) {
  // ggml frees a single buffer here too. With several, work under way may touch the old blocks of the graph before.
  const bool gives_up = a.store_of.size() == 1 || std::exchange(a.has_waited, false);
  for (const auto& s : a.stores) {
    enter_once(s->holders, &a);
    for (old_block& o : s->old) {
      if (gives_up && !plan.reads(o.it)) leave(o.holders, &a);
    }
    s->free_old();
    if (s->is_shared()) continue;  // its buffers need no reset: can_be_shared()
    for (const block& b : s->blocks) ggml_backend_buffer_reset(b.buffer);
  }
  a.homes_known = true;
  const bool accepted = plan.initialise();
  if (accepted && plan.slices_fit()) return true;
  plan.undo();
  a.homes_known = false;
  if (accepted) {
    a.plans.erase(std::find_if(a.plans.begin(), a.plans.end(), [&](const auto& p) { return p.get() == &plan; }));
  } else {
    GGML_LOG_ERROR("berth: the backend refused a tensor\n");
  }
  return false;
}

bool allocate(ggml_gallocr& a, ggml_cgraph* g) {
  if (has_all(g)) return show_views(g);
  join(a);
  const bool several = a.store_of.size() > 1;
  for (std::size_t i = 0; i < a.plans.size() && (!several || a.homes_known); ++i) {
    if (several && !a.plans[i]->may_follow(*a.plans.front(), a.always)) continue;
    if (!a.plans[i]->place(g, a.in)) continue;
    if (a.plans[i]->fits(a.in)) {
      const std::size_t known = a.plans.size();
      if (finish(a, take_up(a, i))) return true;
      if (several || a.plans.size() == known) return false;
      break;
    }
    a.plans[i]->undo();
  }
  if (several) return false;
  set_homes(a, g, nullptr, nullptr);
  auto made = make_plan(a, g, greedily, time_limit::of_allocation(g), false);
  if (made == nullptr || !make_room(a, *made)) return false;
  known_graph& plan = keep(a, std::move(made));
  return plan.place(g, a.in) && finish(a, plan);
}

bool reserve(ggml_gallocr& a, ggml_cgraph* g, const int* node_ids, const int* leaf_ids) {
  a.homes_known = false;
  a.has_waited = true;
  join(a);
  set_homes(a, g, node_ids, leaf_ids);
  a.always.note(a.homes, static_cast<std::size_t>(g->n_nodes));
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    if (!a.plans[i]->for_homes(a.homes) || !a.plans[i]->place(g, a.in)) continue;
    a.plans[i]->undo();
    if (!a.plans[i]->fits(a.in)) continue;
    take_up(a, i);
    a.homes_known = true;
    return true;
  }
  auto made = make_plan(a, g, patiently, time_limit::of_reserve(), false);
  if (made == nullptr || !make_room(a, *made)) return false;
  keep(a, std::move(made));
  a.homes_known = true;
  return true;
}

void measure(ggml_gallocr& a, ggml_cgraph* g, const int* node_ids, const int* leaf_ids, size_t* sizes) {
  std::fill(sizes, sizes + a.store_of.size(), 0);
  a.homes_known = false;
  set_homes(a, g, node_ids, leaf_ids);
  const auto made = make_plan(a, g, patiently, time_limit::of_reserve(), true);
  if (made == nullptr) return;
  for (std::size_t i = 0; i < a.store_of.size(); ++i) {
    for (const bytes size : made->slabs(a.store_of[i])) sizes[i] += size;
  }
}

// Lets no exception out: the host's memory has run out.
template <class Do>
bool guarded(Do do_it) noexcept {
  try {
    return do_it();
  } catch (...) {
    GGML_LOG_ERROR("berth: no memory for a plan\n");
    return false;
  }
}

// Makes an allocator. A scheduler's may share its memory with others.
ggml_gallocr_t make_allocator(ggml_backend_buffer_type_t* types, int count, bool is_schedulers) {
  auto made = std::make_unique<ggml_gallocr>();
  if (stock_is_asked_for() || !is_this_ggml()) {
    if (stock().new_n == nullptr) return nullptr;
    made->stock = stock().new_n(types, count);
    return made.release();
  }
  if (is_schedulers) made->joins = sharing::from_environment();
  for (int i = 0; i < count; ++i) {
    const auto same = [&](const auto& s) { return s->type == types[i]; };
    const auto at = std::find_if(made->stores.begin(), made->stores.end(), same);
    made->store_of.push_back(static_cast<std::uint32_t>(at - made->stores.begin()));
    if (at != made->stores.end()) continue;
    made->stores.push_back(std::make_shared<store>(types[i], made.get()));
    made->in.push_back(made->stores.back().get());
  }
  return made.release();
}

}  // namespace

extern "C" {

ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t* bufts, int n_bufs) {
  return make_allocator(bufts, n_bufs, true);
}

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft) {
  return make_allocator(&buft, 1, false);
}

void ggml_gallocr_free(ggml_gallocr_t galloc) {
  if (galloc == nullptr) return;
  const bool interposed = stock_of(galloc) == galloc;
  if (const ggml_gallocr_t own = stock_of(galloc); own != nullptr) stock().free(own);
  if (!interposed) delete galloc;
}

void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph* graph, const int* node_buffer_ids,
                                 const int* leaf_buffer_ids, size_t* sizes) {
  if (const ggml_gallocr_t own = stock_of(galloc); own != nullptr) {
    stock().reserve_n_size(own, graph, node_buffer_ids, leaf_buffer_ids, sizes);
    return;
  }
  (void)guarded([&] { return measure(*galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes), true; });
}

bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph* graph, const int* node_buffer_ids,
                            const int* leaf_buffer_ids) {
  if (const ggml_gallocr_t own = stock_of(galloc); own != nullptr) {
    return stock().reserve_n(own, graph, node_buffer_ids, leaf_buffer_ids);
  }
  return guarded([&] { return reserve(*galloc, graph, node_buffer_ids, leaf_buffer_ids); });
}

bool ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph* graph) {
  return ggml_gallocr_reserve_n(galloc, graph, nullptr, nullptr);
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph* graph) {
  if (const ggml_gallocr_t own = stock_of(galloc); own != nullptr) return stock().alloc_graph(own, graph);
  return guarded([&] { return allocate(*galloc, graph); });
}

size_t ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id) {
  last_asked = galloc;
  if (const ggml_gallocr_t own = stock_of(galloc); own != nullptr) return stock().get_buffer_size(own, buffer_id);
  GGML_ASSERT(buffer_id >= 0 && static_cast<std::size_t>(buffer_id) < galloc->store_of.size());
  const auto first = std::find(galloc->store_of.begin(), galloc->store_of.end(), galloc->store_of[buffer_id]);
  const store& s = *galloc->stores[galloc->store_of[buffer_id]];
  if (first - galloc->store_of.begin() != buffer_id || s.sharers.front() != galloc) return 0;
  size_t size = 0;
  for (const block& b : s.blocks) size += b.size;
  return size;
}

// A scheduler does not name its allocator; but it asks the allocator for the size of a buffer.
bool berth_ggml_share(const ggml_backend_sched_t* schedulers, int count) {
  return guarded([&] {
    std::vector<ggml_gallocr_t> all;
    for (int i = 0; schedulers != nullptr && i < count && schedulers[i] != nullptr; ++i) {
      last_asked = nullptr;
      (void)ggml_backend_sched_get_buffer_size(schedulers[i], ggml_backend_sched_get_backend(schedulers[i], 0));
      if (last_asked == nullptr || last_asked->stock != nullptr) break;
      all.push_back(last_asked);
    }
    if (count < 1 || all.size() != static_cast<std::size_t>(count)) {
      GGML_LOG_ERROR("%s: no schedulers, or one whose allocator is not Berth's\n", __func__);
      return false;
    }
    std::vector<std::shared_ptr<store>> common;
    for (const ggml_gallocr_t a : all) {
      for (const auto& s : a->stores) {
        if (!can_be_shared(*s)) {
          GGML_LOG_ERROR("%s: %s buffers keep what they know of tensors until a reset\n", __func__,
                         ggml_backend_buft_name(s->type));
          return false;
        }
        const auto at = std::find_if(common.begin(), common.end(), [&](const auto& c) { return c->type == s->type; });
        if (at == common.end()) {
          common.push_back(s);
          continue;
        }
        std::vector<bytes> sizes = (*at)->sizes();
        at_least(sizes, s->sizes());
        if (!provide(**at, all.front(), sizes)) return false;
      }
    }
    for (const ggml_gallocr_t a : all) {
      for (std::size_t m = 0; m < a->stores.size(); ++m) {
        adopt(*a, m, *std::find_if(common.begin(), common.end(), [&](const auto& c) {
          return c->type == a->stores[m]->type;
        }));
      }
    }
    return true;
  });
}

}  // extern "C"
