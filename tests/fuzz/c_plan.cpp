// Calls of the planner's C interface in any order, with handles that live, are gone or never were, and structs of any
// size and content. Each returns a status, never a crash. Every plan passes the check, and a call that fails changes
// nothing.
#include <algorithm>
#include <cstring>
#include <vector>

#include "berth/plan.h"
#include "c/sized.hpp"
#include "fuzz/fuzz.hpp"

using namespace berth;

namespace {

using berth::support::sized;

constexpr std::uint64_t sizes[] = {0, 1, 7, 64, 100, 4096, 1u << 20, std::uint64_t{1} << 40, UINT64_MAX};
constexpr std::int64_t ticks[] = {0, 1, 2, 3, 4, 5, 8, -1, INT64_MIN, INT64_MAX};

struct problem {
  berth_problem* handle = nullptr;
  std::size_t buffers = 0;
};

class game {
 public:
  explicit game(fuzz::choices c) : c_{c} {}

  void play() {
    for (int turns = 0; !c_.empty() && turns < 60; ++turns) turn();
    for (const problem& p : problems_) berth_problem_destroy(p.handle);
    for (const berth_plan* p : plans_) berth_plan_destroy(const_cast<berth_plan*>(p));
  }

 private:
  void turn() {
    switch (c_.byte() % 12) {
      case 0: create(); break;
      case 1:
      case 2:
      case 3: add(); break;
      case 4: add_many(); break;
      case 5: pairs(); break;
      case 6: memory(); break;
      case 7:
      case 8: solve(); break;
      case 9: read_plan(); break;
      case 10: destroy(); break;
      default: verify();
    }
  }

  // One that lives, mostly.
  problem* pick() {
    static problem none;
    const std::uint8_t how = c_.byte();
    if (how >= 240 || problems_.empty()) {
      none = {gone_ != nullptr && how % 2 == 0 ? gone_
                                               : reinterpret_cast<berth_problem*>(std::uintptr_t{how} << 4 | 2)};
      return &none;
    }
    return &problems_[how % problems_.size()];
  }

  // A struct whose size may be anything; the bytes behind it are as the fuzzer says.
  template <class T>
  const T* resized(const T& from) {
    std::memset(room_, c_.byte() % 8 == 0 ? 1 : 0, sizeof room_);
    std::memcpy(room_, &from, sizeof from);
    if (c_.byte() % 8 == 0) {
      constexpr std::size_t odd[] = {0, 8, sizeof from - 1, sizeof from + 8, SIZE_MAX};
      const std::size_t size = c_.of(odd);
      std::memcpy(room_, &size, sizeof size);
    }
    return reinterpret_cast<const T*>(room_);
  }

  static void said(berth_status s) {
    fuzz::require((s == BERTH_OK) == (berth_error_text()[0] == '\0'), "a failure has a text, a success none");
    fuzz::require(std::strchr(berth_error_text(), '\n') == nullptr, "a text is one line");
    fuzz::require(s != BERTH_INTERNAL, berth_error_text());
  }

  void create() {
    if (problems_.size() == 4) return;
    auto o = sized<berth_problem_options>();
    o.alignment = c_.byte() % 4 == 0 ? c_.of(sizes) : 0;
    o.granularity = c_.byte() % 4 == 0 ? c_.of(sizes) : 0;
    o.tail_pad = c_.byte() % 4 == 0 ? c_.of(sizes) : 0;
    o.capacity = c_.byte() % 4 == 0 ? c_.of(sizes) : 0;
    o.max_slab = c_.byte() % 8 == 0 ? c_.of(sizes) : 0;
    berth_problem* made = nullptr;
    const berth_status s = berth_problem_create(c_.byte() % 4 == 0 ? nullptr : resized(o), &made);
    said(s);
    fuzz::require((s == BERTH_OK) == (made != nullptr), "an output is set where the call succeeds");
    if (s == BERTH_OK) problems_.push_back({made, 0});
  }

  void add() {
    problem* const to = pick();
    auto b = sized<berth_buffer>();
    b.size = c_.byte() * 64u;
    b.lower = c_.byte() % 8;
    b.upper = b.lower + 1 + c_.byte() % 4;
    if (c_.byte() % 4 != 0) {  // a plain one, so that problems grow
      const berth_status s = berth_problem_add(to->handle, &b, nullptr);
      said(s);
      to->buffers += s == BERTH_OK ? 1 : 0;
      return;
    }
    b.size = c_.of(sizes);
    b.lower = c_.of(ticks);
    b.upper = c_.of(ticks);
    b.alignment = c_.byte() % 4 == 0 ? c_.of(sizes) : 0;
    b.fields = c_.byte() % 2 == 0 ? 0 : c_.byte() % 16;
    b.offset = c_.of(sizes);
    b.hint = c_.of(sizes);
    b.alias_group = c_.byte();
    berth_interval lives[2] = {{c_.of(ticks), c_.of(ticks)}, {c_.of(ticks), c_.of(ticks)}};
    if (c_.byte() % 4 == 0) b.lifetimes = lives;
    b.lifetime_count = c_.byte() % 4 == 0 ? c_.byte() % 3 : 0;
    std::uint32_t in[2] = {c_.byte() % 3u, c_.byte()};
    if (c_.byte() % 8 == 0) b.memories = in;
    b.memory_count = c_.byte() % 8 == 0 ? c_.byte() % 3 : 0;
    std::uint32_t index = 0;
    const berth_status s = berth_problem_add(to->handle, resized(b), &index);
    said(s);
    if (s == BERTH_OK) fuzz::require(index == to->buffers++, "an index is the count before");
  }

  void add_many() {
    problem* const to = pick();
    std::uint64_t size[8];
    std::int64_t lower[8], upper[8];
    for (int i = 0; i < 8; ++i) {
      size[i] = c_.byte() * 16u;
      lower[i] = c_.byte() % 16;
      upper[i] = lower[i] + 1 + c_.byte() % 8;
    }
    const std::size_t n = c_.byte() % 16 == 0 ? SIZE_MAX : c_.byte() % 9;
    const berth_status s = berth_problem_add_many(to->handle, n, c_.byte() % 16 == 0 ? nullptr : size, lower, upper);
    said(s);
    if (s == BERTH_OK) to->buffers += n;
  }

  void pairs() {
    problem* const to = pick();
    const std::uint32_t some[2][2] = {{c_.byte() % 12u, c_.byte() % 12u}, {c_.byte(), c_.byte() % 12u}};
    const std::size_t n = c_.byte() % 16 == 0 ? SIZE_MAX : c_.byte() % 3;
    switch (c_.byte() % 3) {
      case 0: said(berth_problem_add_conflicts(to->handle, n == 0 ? nullptr : some, n)); break;
      case 1: said(berth_problem_add_separations(to->handle, n == 0 ? nullptr : some, n)); break;
      default: said(berth_problem_add_reuse_penalty(to->handle, some[0][0], some[0][1], c_.byte() / 8.0 - 1));
    }
  }

  void memory() {
    problem* const to = pick();
    auto m = sized<berth_memory>();
    m.capacity = c_.of(sizes);
    m.alignment = c_.byte() % 2 == 0 ? 0 : c_.of(sizes);
    m.cost = c_.byte() / 4.0 - 1;
    const std::uint64_t reserved[] = {c_.of(sizes), c_.of(sizes)};
    if (c_.byte() % 4 == 0) m.reserved = reserved;
    m.reserved_count = c_.byte() % 4 == 0 ? 1 : 0;
    said(berth_problem_add_memory(to->handle, resized(m), nullptr));
  }

  void solve() {
    problem* const of = pick();
    auto o = sized<berth_solve_options>();
    o.effort = c_.byte() % 4;
    o.node_limit = 1 + c_.byte();
    o.threads = c_.byte() % 3;
    o.deadline_s = c_.byte() / 100.0 - 0.05;
    if (c_.byte() % 4 == 0) o.progress = [](void*, std::uint64_t, std::uint64_t, std::uint64_t) { return 1; };
    berth_plan* made = nullptr;
    berth_status s;
    if (c_.byte() % 4 == 0) {
      std::vector<std::uint64_t> before(of->buffers, BERTH_NEW_BUFFER);
      for (auto& at : before) at = c_.byte() % 2 == 0 ? BERTH_NEW_BUFFER : c_.of(sizes);
      std::size_t moved = 0;
      s = berth_replan(of->handle, resized(o), before.data(), before.size(), &made, &moved);
    } else {
      s = berth_solve(of->handle, resized(o), &made);
    }
    said(s);
    fuzz::require((s == BERTH_OK) == (made != nullptr), "an output is set where the call succeeds");
    if (s != BERTH_OK) return;
    check(*of, made);
    plans_.push_back(made);
    if (plans_.size() > 4) {
      berth_plan_destroy(plans_.front());
      plans_.erase(plans_.begin());
    }
  }

  // Checks a plan by the verification that shares no code with the solver.
  static void check(const problem& of, const berth_plan* made) {
    std::vector<std::uint64_t> at(of.buffers);
    std::vector<std::uint32_t> in(of.buffers), slab(of.buffers);
    if (berth_plan_offsets(made, at.data(), at.size()) == BERTH_NO_OFFSETS) return;
    const bool read = berth_plan_memories(made, in.data(), in.size()) == BERTH_OK &&
                      berth_plan_slabs(made, slab.data(), slab.size()) == BERTH_OK;
    fuzz::require(read, "a plan has a place for every buffer");
    auto s = sized<berth_plan_summary>();
    fuzz::require(berth_plan_summarize(made, &s) == BERTH_OK && s.lower_bound <= s.arena, "a bound is above a plan");
    for (const std::uint64_t offset : at) fuzz::require(offset <= s.arena, "an offset lies beyond the arena");
    const berth_status ok = berth_verify(of.handle, at.data(), in.data(), slab.data(), at.size());
    fuzz::require(ok == BERTH_OK, berth_error_text());
  }

  void read_plan() {
    const berth_plan* const p = plans_.empty() || c_.byte() % 8 == 0 ? reinterpret_cast<berth_plan*>(pick()->handle)
                                                                     : plans_[c_.byte() % plans_.size()];
    auto s = sized<berth_plan_summary>();
    std::memset(room_, 1, sizeof room_);
    constexpr std::size_t all[] = {sizeof s, sizeof s, sizeof s + 8, 8, SIZE_MAX};
    s.struct_size = c_.of(all);
    std::memcpy(room_, &s, sizeof s);
    said(berth_plan_summarize(p, reinterpret_cast<berth_plan_summary*>(room_)));
    std::uint64_t at[16];
    said(berth_plan_offsets(p, c_.byte() % 8 == 0 ? nullptr : at, c_.byte() % 17));
    said(berth_plan_check_bound(p, pick()->handle));
  }

  void destroy() {
    if (problems_.empty()) return berth_problem_destroy(gone_);
    const std::size_t i = c_.byte() % problems_.size();
    gone_ = problems_[i].handle;
    problems_.erase(problems_.begin() + static_cast<std::ptrdiff_t>(i));
    berth_problem_destroy(gone_);
    said(BERTH_OK);
  }

  void verify() {
    problem* const of = pick();
    std::vector<std::uint64_t> at(c_.byte() % 8 == 0 ? c_.byte() : of->buffers);
    for (auto& o : at) o = c_.of(sizes);
    std::vector<std::uint32_t> in(at.size(), c_.byte());
    said(berth_verify(of->handle, at.data(), c_.byte() % 2 == 0 ? nullptr : in.data(),
                      c_.byte() % 2 == 0 ? nullptr : in.data(), at.size()));
    said(berth_problem_validate(of->handle));
  }

  fuzz::choices c_;
  std::vector<problem> problems_;
  std::vector<berth_plan*> plans_;
  berth_problem* gone_ = nullptr;
  alignas(16) unsigned char room_[512] = {};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  game{{data, size}}.play();
  return 0;
}
