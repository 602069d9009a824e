// ggml's graph allocator, the eight functions of ggml-alloc.h, over Berth. See berth/graph/adapters/ggml.h.
//
// An allocator keeps eight plans. A graph that one of them serves is compared and placed in one walk, without a call
// into the backend where that asks for none; another is read and planned with effort fast. Where its memory would have
// to grow, and fast has not proved that no plan needs less, alloc_graph tries all greedy orders and reserve searches.
//
// With several buffer types alloc_graph serves by the plan of the last call only. Any other change is left to
// reserve_n, as in ggml: the scheduler waits for work under way before it calls that, and it alone says which buffer
// type each node belongs to.
#include <cstdlib>
#include <memory>
#include <numeric>
#include <utility>

#include "berth/graph/adapters/ggml.h"
#include "ggml-alloc.h"
#include "ggml_graph.hpp"
#include "ggml_reader.hpp"

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

// What ggml.h declares and leaves to the allocator.
struct ggml_gallocr {
  static constexpr std::uint64_t mark = 0x6265727468676761;  // no address, which is what ggml's own begins with
  std::uint64_t is_berths = mark;
  ggml_gallocr_t stock = nullptr;  // ggml's own does everything
  std::vector<std::shared_ptr<store>> stores;
  std::vector<std::uint32_t> store_of;              // by buffer id
  std::vector<std::unique_ptr<known_graph>> plans;  // most recently used first
  reader read;
  bool homes_known = false;   // the scheduler's last call was served: its homes are those of the first plan
  bool counts_stores = true;  // of allocators that share stores, one tells their size
  std::vector<store*> in;     // stores, as the walk takes them
  std::vector<std::uint32_t> homes;
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

// ggml's own allocator in or behind g, or null. Where functions are interposed, ggml's own call one another by way of
// ours, with an allocator of their making.
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

// ---- memory ----

void free_blocks(std::vector<block>& blocks) {
  for (const block& b : blocks) ggml_backend_buffer_free(b.buffer);
  blocks.clear();
}

struct free_store {
  void operator()(store* s) const {
    free_blocks(s->blocks);
    free_blocks(s->retired);
    delete s;
  }
};

bool take_blocks(store& s, std::span<const bytes> sizes) {
  ++s.moves;
  for (const bytes size : sizes) {
    const ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(s.type, size);
    if (buffer == nullptr) {
      free_blocks(s.blocks);
      return false;
    }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    s.blocks.push_back({buffer, static_cast<char*>(ggml_backend_buffer_get_base(buffer)), size});
  }
  return true;
}

void at_least(std::vector<bytes>& sizes, std::span<const bytes> others) {
  sizes.resize(std::max(sizes.size(), others.size()), 0);
  for (std::size_t k = 0; k < others.size(); ++k) sizes[k] = std::max(sizes[k], others[k]);
}

std::vector<bytes> sizes_of(const store& s) {
  std::vector<bytes> sizes;
  for (const block& b : s.blocks) sizes.push_back(b.size);
  return sizes;
}

// The store has at least these blocks afterwards. The old ones go first, as in ggml, so that never both are taken, and
// are taken again where that fails; or they stay, `retired`, while a graph still reads from them.
bool provide(store& s, std::span<const bytes> sizes, bool retire = false) {
  const std::vector<bytes> before = sizes_of(s);
  std::vector<bytes> wanted = before;
  at_least(wanted, sizes);
  if (wanted == before && !retire) return true;
  if (retire) {
    s.retired.insert(s.retired.end(), s.blocks.begin(), s.blocks.end());
    s.blocks.clear();
  } else {
    wanted.assign(sizes.begin(), sizes.end());  // no more than this graph's, as in ggml
  }
  free_blocks(s.blocks);
  if (take_blocks(s, wanted)) return true;
  GGML_LOG_ERROR("berth: no %s buffer of %llu bytes\n", ggml_backend_buft_name(s.type),
                 static_cast<unsigned long long>(std::accumulate(wanted.begin(), wanted.end(), bytes{0})));
  if (!retire) return take_blocks(s, before), false;
  s.blocks.assign(s.retired.end() - static_cast<std::ptrdiff_t>(before.size()), s.retired.end());
  s.retired.resize(s.retired.size() - before.size());
  return false;
}

// ---- plans ----

// Where the scheduler knows no backend for a leaf (no node reads it), it is the last one's, which is the host.
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

// Reads and plans g for a.homes; null, with a line in ggml's log, where it has no right place.
std::unique_ptr<known_graph> make_plan(ggml_gallocr& a, const ggml_cgraph* g, const plan::options& search,
                                       bool measuring) {
  if (const complaint wrong = a.read.read(g, a.in, a.homes, measuring); !wrong.empty()) {
    GGML_LOG_ERROR("berth: graph not allocated: %s\n", wrong.c_str());
    return nullptr;
  }
  auto made = std::make_unique<known_graph>();
  auto done = a.read.plan_it(quickly, true, *made);
  if (done && !made->optimal() && !made->fits(a.in)) (void)a.read.plan_it(search, true, *made);
  // Alone in its memory, an allocator owes earlier graphs no more than ggml's does.
  if (!done && a.read.has_pins() && a.stores.front().use_count() == 1) done = a.read.plan_it(quickly, false, *made);
  if (done) return made;
  GGML_LOG_ERROR("berth: graph not allocated: %s (%llu)\n", done.error().what,
                 static_cast<unsigned long long>(done.error().number));
  return nullptr;
}

// The memory that the plan of the graph read last needs. Where that must grow and the graph reads from it, the graph is
// planned again, beside the old blocks instead of around what it reads there; in blocks in which it will have room
// around it when that comes again.
bool make_room(ggml_gallocr& a, known_graph& made) {
  if (made.fits(a.in)) return true;
  const bool retire = a.read.has_pins();
  std::vector<std::vector<bytes>> wanted(a.stores.size());
  const auto want = [&] {
    for (std::size_t m = 0; m < wanted.size(); ++m) at_least(wanted[m], made.slabs(m));
  };
  want();
  if (retire) {
    if (!a.read.plan_it(quickly, false, made)) return false;
    want();
  }
  for (std::size_t m = 0; m < a.stores.size(); ++m) {
    if (!provide(*a.stores[m], wanted[m], retire)) return false;
  }
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

// Whether g has all its memory already, from an earlier call. Views may still be without a buffer.
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

// The graph that `plan` has just placed is now the one that the buffers serve.
bool finish(ggml_gallocr& a, known_graph& plan) {
  for (const auto& s : a.stores) {
    if (!s->retired.empty() && !plan.reads(s->retired)) free_blocks(s->retired);
    // What an earlier graph left there keeps what its backend knows of it.
    if (a.stores.front().use_count() > 1 && plan.reads(s->blocks)) continue;
    for (const block& b : s->blocks) ggml_backend_buffer_reset(b.buffer);
  }
  a.homes_known = true;
  if (plan.initialise()) return true;
  GGML_LOG_ERROR("berth: the backend refused a tensor\n");
  plan.undo();
  return false;
}

bool allocate(ggml_gallocr& a, ggml_cgraph* g) {
  if (has_all(g)) return show_views(g);
  const bool several = a.store_of.size() > 1;
  for (std::size_t i = 0; i < a.plans.size() && (!several || (i == 0 && a.homes_known)); ++i) {
    if (!a.plans[i]->place(g, a.in)) continue;
    if (a.plans[i]->fits(a.in)) return finish(a, take_up(a, i));
    a.plans[i]->undo();
  }
  if (several) return false;
  set_homes(a, g, nullptr, nullptr);
  auto made = make_plan(a, g, greedily, false);
  if (made == nullptr || !make_room(a, *made)) return false;
  known_graph& plan = keep(a, std::move(made));
  return plan.place(g, a.in) && finish(a, plan);
}

bool reserve(ggml_gallocr& a, ggml_cgraph* g, const int* node_ids, const int* leaf_ids) {
  a.homes_known = false;
  set_homes(a, g, node_ids, leaf_ids);
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    if (!a.plans[i]->for_homes(a.homes) || !a.plans[i]->place(g, a.in)) continue;
    a.plans[i]->undo();
    if (!a.plans[i]->fits(a.in)) continue;
    take_up(a, i);
    a.homes_known = true;
    return true;
  }
  auto made = make_plan(a, g, patiently, false);
  if (made == nullptr || !make_room(a, *made)) return false;
  keep(a, std::move(made));
  a.homes_known = true;
  return true;
}

void measure(ggml_gallocr& a, ggml_cgraph* g, const int* node_ids, const int* leaf_ids, size_t* sizes) {
  std::fill(sizes, sizes + a.store_of.size(), 0);
  a.homes_known = false;
  set_homes(a, g, node_ids, leaf_ids);
  const auto made = make_plan(a, g, patiently, true);
  if (made == nullptr) return;
  for (std::size_t i = 0; i < a.store_of.size(); ++i) {
    for (const bytes size : made->slabs(a.store_of[i])) sizes[i] += size;
  }
}

// No exception leaves: the host's memory has run out.
template <class Do>
bool guarded(Do do_it) noexcept {
  try {
    return do_it();
  } catch (...) {
    GGML_LOG_ERROR("berth: no memory for a plan\n");
    return false;
  }
}

}  // namespace

extern "C" {

ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t* bufts, int n_bufs) {
  auto made = std::make_unique<ggml_gallocr>();
  if (stock_is_asked_for()) {
    made->stock = stock().new_n(bufts, n_bufs);
    return made.release();
  }
  for (int i = 0; i < n_bufs; ++i) {
    const auto same = [&](const auto& s) { return s->type == bufts[i]; };
    const auto at = std::find_if(made->stores.begin(), made->stores.end(), same);
    made->store_of.push_back(static_cast<std::uint32_t>(at - made->stores.begin()));
    if (at != made->stores.end()) continue;
    const std::shared_ptr<store> s{new store{bufts[i], {}, {}, {}, 0}, free_store{}};
    s->rule = {ggml_backend_buft_get_alignment(bufts[i]), ggml_backend_buft_get_max_size(bufts[i])};
    made->stores.push_back(s);
    made->in.push_back(s.get());
  }
  return made.release();
}

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft) {
  return ggml_gallocr_new_n(&buft, 1);
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
  if (first - galloc->store_of.begin() != buffer_id || !galloc->counts_stores) return 0;
  size_t size = 0;
  for (const block& b : galloc->stores[galloc->store_of[buffer_id]]->blocks) size += b.size;
  return size;
}

// A scheduler does not say what its allocator is; but asked for the size of a buffer it asks that.
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
        const auto at = std::find_if(common.begin(), common.end(), [&](const auto& c) { return c->type == s->type; });
        if (at == common.end()) {
          common.push_back(s);
          continue;
        }
        std::vector<bytes> sizes = sizes_of(**at);
        at_least(sizes, sizes_of(*s));
        if (!provide(**at, sizes)) return false;
      }
    }
    for (const ggml_gallocr_t a : all) {
      for (std::size_t m = 0; m < a->stores.size(); ++m) {
        a->stores[m] =
            *std::find_if(common.begin(), common.end(), [&](const auto& c) { return c->type == a->stores[m]->type; });
        a->in[m] = a->stores[m].get();
        ++a->stores[m]->moves;
      }
      a->counts_stores = a == all.front();
      a->homes_known = false;
    }
    return true;
  });
}

}  // extern "C"
