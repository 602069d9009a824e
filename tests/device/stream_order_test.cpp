// Compares the order that streams report with textbook vector clocks. Every stream and event has a plain table of all
// epochs, which is copied and merged whole. The programs have up to 300 streams, which come and go.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "berth/device/stream.hpp"
#include "device/backend.hpp"
#include "support/failing_new.hpp"
#include "support/sanitizers.hpp"

namespace berth {
namespace {

// A device whose streams do nothing and complete no epoch by themselves. Its events and streams are done where
// `reached` is set; record and wait fail where `broken` is.
class silent_backend final : public detail::device_backend {
 public:
  bool reached = false;
  bool broken = false;

  result<void*> allocate(bytes, memory_kind) override { return no_virtual_memory; }
  void free(void*, bytes, memory_kind) noexcept override {}
  result<std::unique_ptr<detail::backend_queue>> create_queue(std::shared_ptr<stream_clock>) override {
    return std::unique_ptr<detail::backend_queue>{new queue{*this}};
  }
  result<std::unique_ptr<detail::backend_queue>> wrap_queue(void*, std::shared_ptr<stream_clock> clock) override {
    return create_queue(std::move(clock));
  }
  result<std::unique_ptr<detail::backend_event>> create_event() override {
    return std::unique_ptr<detail::backend_event>{new event{*this}};
  }

 private:
  result<void> answer() const {
    if (broken) return error{errc::device_failed, "broken"};
    return {};
  }
  struct event final : detail::backend_event {
    explicit event(silent_backend& d) : of{d} {}
    result<bool> query() override { return of.reached; }
    result<void> synchronize() override { return {}; }
    silent_backend& of;
  };
  struct queue final : detail::backend_queue {
    explicit queue(silent_backend& d) : of{d} {}
    result<void> copy(void*, const void*, bytes) override { return {}; }
    result<void> fill(void*, std::byte, bytes) override { return {}; }
    result<void> call(void (*)(void*), void*) override { return {}; }
    result<void> record(detail::backend_event&, std::uint64_t) override { return of.answer(); }
    result<void> wait(detail::backend_event&) override { return of.answer(); }
    result<void> synchronize() override { return {}; }
    result<bool> query() override { return of.reached; }
    silent_backend& of;
  };
};

// An epoch of each stream by its number, in the order of creation.
using table = std::vector<std::uint64_t>;

std::uint64_t at(const table& t, std::size_t number) {
  return number < t.size() ? t[number] : 0;
}
void raise(table& t, std::size_t number, std::uint64_t epoch) {
  if (t.size() <= number) t.resize(number + 1);
  t[number] = std::max(t[number], epoch);
}

class program {
 public:
  program(std::size_t streams, std::uint64_t seed) : random_{seed} {
    for (std::size_t i = 0; i < streams; ++i) begin(i);
    for (std::size_t i = 0; i < streams; ++i) events_.push_back(std::make_unique<marked>(device_));
  }

  void run(int length) {
    for (int i = 0; i < length; ++i) {
      if (i % 97 == 0) shape_ = random_() % 5;
      const auto [from, to] = draw_pair(static_cast<std::size_t>(i));
      record(from, from);
      if (draw(8)) record(random_() % places_.size(), from);  // an event of one stream is recorded on another
      wait(to, draw(8) ? random_() % events_.size() : from);
      if (draw(16)) ask(from);
      if (draw(40)) replace(random_() % places_.size());
    }
    for (std::size_t p = 0; p < places_.size(); ++p) check(p);
  }

  void end() {
    places_.clear();
    events_.clear();
    RC_ASSERT(backend_->order.nodes().in_use() == 0u);
  }

 private:
  struct placed {
    std::unique_ptr<stream> s;
    std::size_t number = 0;
    table behind;
  };
  struct marked {
    explicit marked(const device& d) : e{d} {}
    event e;
    bool recorded = false;
    std::size_t number = 0;
    std::uint64_t epoch = 0;
    table behind;
  };

  bool draw(std::uint64_t one_of) { return random_() % one_of == 0; }

  void begin(std::size_t place) {
    if (place == places_.size()) places_.emplace_back();
    auto made = draw(4) ? stream::wrap(device_, nullptr) : stream::create(device_);
    placed& p = places_[place];
    p.s = std::make_unique<stream>(std::move(made.value()));
    p.number = ids_.size();
    p.behind.clear();
    ids_.push_back(p.s->id());
  }

  // The stream at that place ends, and another one begins. Tables keep what they say of the one that ended.
  void replace(std::size_t place) {
    places_[place].s.reset();
    begin(place);
  }

  // A ring, a main stream and those that work for it, groups, a few that meet again and again, any.
  std::pair<std::size_t, std::size_t> draw_pair(std::size_t step) {
    const std::size_t n = places_.size();
    const std::size_t any = random_() % n;
    switch (shape_) {
      case 0: return {step % n, (step + 1) % n};
      case 1: return step % 2 == 0 ? std::pair{std::size_t{0}, step / 2 % n} : std::pair{step / 2 % n, std::size_t{0}};
      case 2: return {any, any / 8 * 8 + random_() % std::min<std::size_t>(8, n - any / 8 * 8)};
      case 3: return {random_() % std::min<std::size_t>(n, 3), random_() % std::min<std::size_t>(n, 3)};
      default: return {any, random_() % n};
    }
  }

  void record(std::size_t place, std::size_t e) {
    placed& p = places_[place];
    marked& m = *events_[e];
    backend_->broken = draw(32);
    const std::uint64_t closes = p.s->epoch();
    const bool done = p.s->record(m.e).has_value();
    RC_ASSERT(done == !backend_->broken);
    backend_->broken = false;
    if (!done) return;
    m.recorded = true;
    m.number = p.number;
    m.epoch = closes;
    m.behind = p.behind;
  }

  void wait(std::size_t place, std::size_t e) {
    placed& p = places_[place];
    const marked& m = *events_[e];
    const bool own = m.recorded && m.number == p.number;
    backend_->broken = draw(32);
    support::fail_new_after(draw(8) ? static_cast<long>(1 + random_() % 3) : 0);
    const auto done = p.s->wait(m.e);
    const bool no_memory = support::fail_new_after(0);
    RC_ASSERT(done || backend_->broken || (no_memory && done.error().code == errc::out_of_memory));
    RC_ASSERT(!done || !m.recorded || own || !backend_->broken);
    backend_->broken = false;
    if (done && m.recorded && !own) {
      for (std::size_t i = 0; i < m.behind.size(); ++i) raise(p.behind, i, m.behind[i]);
      raise(p.behind, m.number, m.epoch);
    }
    check(place);
  }

  // Events and streams that are done complete all that they are ordered behind.
  void ask(std::size_t e) {
    const marked& m = *events_[e];
    const placed& p = places_[random_() % places_.size()];
    backend_->reached = draw(2);
    const std::uint64_t closes = p.s->epoch();
    RC_ASSERT(m.e.query().value() == (backend_->reached || !m.recorded));
    if (backend_->reached && m.recorded) complete(m.behind, m.number, m.epoch);
    RC_ASSERT(p.s->query().value() == backend_->reached);
    if (backend_->reached) complete(p.behind, p.number, closes);
    for (const placed& each : places_) RC_ASSERT(each.s->completed() == at(done_, each.number));
  }
  void complete(const table& behind, std::size_t number, std::uint64_t epoch) {
    for (std::size_t i = 0; i < behind.size(); ++i) raise(done_, i, behind[i]);
    raise(done_, number, epoch);
  }

  // No less, and no more: streams that have ended may be forgotten.
  void check(std::size_t place) {
    const placed& p = places_[place];
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (i != p.number) RC_ASSERT(p.s->epoch_behind(ids_[i]) <= at(p.behind, i));
    }
    for (const placed& other : places_) {
      if (&other == &p) continue;
      const std::uint64_t behind = at(p.behind, other.number);
      RC_ASSERT(p.s->epoch_behind(other.s->id()) == behind);
      RC_ASSERT(p.s->ordered_behind(other.s->id(), behind) && !p.s->ordered_behind(other.s->id(), behind + 1));
    }
  }

  std::mt19937_64 random_;
  std::shared_ptr<silent_backend> backend_ = std::make_shared<silent_backend>();
  device device_{backend_};
  std::vector<std::uint32_t> ids_;  // of all streams, by their numbers
  std::vector<placed> places_;
  std::vector<std::unique_ptr<marked>> events_;
  table done_;
  std::uint64_t shape_ = 0;
};

RC_GTEST_PROP(stream_order, is_that_of_plain_vector_clocks, (std::uint64_t seed)) {
  const auto few = *rc::gen::inRange<std::size_t>(2, 20);
  program p{few, seed};
  p.run(600);
  p.end();
}

RC_GTEST_PROP(stream_order, is_that_of_plain_vector_clocks_for_many_streams, (std::uint64_t seed)) {
  const auto many = *rc::gen::inRange<std::size_t>(20, 300);
  program p{many, seed};
  p.run(600);
  p.end();
}

TEST(stream_order, a_stream_is_behind_itself_and_behind_no_stranger) {
  const device d = device::open("null").value();
  stream a{d};
  stream b{d};
  EXPECT_EQ(a.epoch_behind(a.id()), stream_clock::ended);
  EXPECT_EQ(a.epoch_behind(b.id()), 0u);
  EXPECT_EQ(a.epoch_behind(0), 0u);
  event e{d};
  ASSERT_TRUE(b.record(e));
  const std::uint64_t closed = b.epoch();
  ASSERT_TRUE(b.record(e));
  ASSERT_TRUE(a.wait(e));
  EXPECT_EQ(a.epoch_behind(b.id()), closed);
}

// A server that makes a stream for each request.
TEST(stream_order, clocks_stay_small_where_streams_come_and_go) {
  const device d = device::open("null").value();
  constexpr int lasting = 40;
  constexpr int passing = support::sanitized || support::emulated ? 5'000 : 100'000;
  std::vector<stream> all;
  for (int i = 0; i < lasting; ++i) all.emplace_back(d);
  event of_all{d};
  event of_passing{d};
  std::size_t most = 0;
  for (int i = 0; i < passing; ++i) {
    stream one{d};
    stream& main = all[static_cast<std::size_t>(i % lasting)];
    ASSERT_TRUE(main.record(of_all));
    ASSERT_TRUE(one.wait(of_all));
    ASSERT_TRUE(one.record(of_passing));
    ASSERT_TRUE(main.wait(of_passing));
    ASSERT_TRUE(all[static_cast<std::size_t>((i + 1) % lasting)].wait(of_passing));
    most = std::max(most, d.backend().order.nodes().in_use());
  }
  EXPECT_LT(most, 2000u);
  EXPECT_LT(d.backend().order.nodes().in_use(), 2000u);
}

// Several threads let some streams work and meet. An operation looks whether all is done that its stream was said to
// be behind when it was enqueued.
class crowd {
 public:
  crowd(std::size_t streams, int rounds) : rounds_{rounds}, lists_(streams) {
    for (std::size_t i = 0; i < streams; ++i) streams_.emplace_back(device::host());
  }
  void run() {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 3; ++t) threads.emplace_back([this, t] { work(t); });
    for (std::thread& one : threads) one.join();
    for (stream& s : streams_) EXPECT_TRUE(s.synchronize());
    EXPECT_EQ(wrong_.load(), 0);
  }

 private:
  struct operation {
    std::atomic<int>* wrong;
    std::vector<const operation*> follows;
    std::atomic<bool> done{false};
    std::uint64_t epoch = 0;  // its stream's, or a later one
    static void run(void* context) {
      auto* self = static_cast<operation*>(context);
      for (const operation* one : self->follows) {
        if (!one->done.load()) self->wrong->fetch_add(1);
      }
      self->done.store(true);
    }
  };
  struct list {
    std::mutex mutex;
    std::vector<std::unique_ptr<operation>> all;
  };

  void work(std::uint64_t seed) {
    std::mt19937_64 random{seed};
    std::vector<event> events;
    for (int i = 0; i < 4; ++i) events.emplace_back(device::host());
    for (int i = 0; i < rounds_; ++i) {
      const std::size_t from = random() % streams_.size();
      const std::size_t to = random() % streams_.size();
      event& e = events[random() % events.size()];
      call(from);
      std::vector<std::uint64_t> before;
      for (const stream& s : streams_) before.push_back(streams_[from].epoch_behind(s.id()));
      before[from] = streams_[from].epoch();
      check(streams_[from].record(e).has_value() && streams_[to].wait(e).has_value());
      for (std::size_t k = 0; k < streams_.size(); ++k) {
        check(streams_[to].epoch_behind(streams_[k].id()) >= before[k]);
      }
      call(to);
      if (random() % 8 == 0) {
        check(e.synchronize().has_value());
        for (std::size_t k = 0; k < streams_.size(); ++k) check(streams_[k].completed() >= before[k]);
      }
      if (random() % 8 == 0) check(streams_[to].query().has_value());
      if (random() % 32 == 0) check(streams_[to].synchronize().has_value());
    }
  }

  void call(std::size_t on) {
    auto made = std::make_unique<operation>();
    operation* const one = made.get();
    one->wrong = &wrong_;
    // Only the knowledge before the enqueue counts.
    for (std::size_t k = 0; k < streams_.size(); ++k) {
      if (k == on) continue;
      const std::uint64_t behind = streams_[on].epoch_behind(streams_[k].id());
      const std::lock_guard lock{lists_[k].mutex};
      for (const auto& other : lists_[k].all) {
        if (other->epoch <= behind) one->follows.push_back(other.get());
      }
    }
    check(streams_[on].call(operation::run, one).has_value());
    one->epoch = streams_[on].epoch();
    const std::lock_guard lock{lists_[on].mutex};
    lists_[on].all.push_back(std::move(made));
  }

  void check(bool good) {
    if (!good) ++wrong_;
  }

  int rounds_;
  std::atomic<int> wrong_{0};
  std::vector<list> lists_;
  std::vector<stream> streams_;  // last, so that they go first: their work reads the above
};

TEST(stream_order, several_threads_are_never_told_more_than_is_true) {
  crowd{4, 300}.run();
  crowd{24, 200}.run();
}

}  // namespace
}  // namespace berth
