// guard|recorder: blocks that guards know, alone or with a recorder. who_guards.cmake asks gdb whose they are, in the
// process and in its core.
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "berth/berth.hpp"
#include "look_here.hpp"

namespace {
// Cuts its blocks out of one of a pool's, as arenas do.
class cutting_source final : public berth::memory_source {
 public:
  explicit cutting_source(berth::block of) : of_{std::move(of)}, next_{static_cast<char*>(of_.data())} {}
  [[nodiscard]] const berth::device& get_device() const noexcept override { return host_; }

 private:
  outcome do_allocate(berth::bytes size, berth::stream&, const berth::block_options*, berth::source_location) override {
    return {std::exchange(next_, next_ + berth::align_up(size, 64)), nullptr};
  }
  void do_free(void*, berth::bytes, std::uint32_t, berth::source_location) noexcept override {}
  void do_use_on(void*, berth::stream&, const berth::source_location&) override {}

  berth::device host_ = berth::device::host();
  berth::block of_;
  char* next_;
};
}  // namespace

int main(int, char** words) {
  using namespace berth;
  constexpr bytes limit = bytes{1} << 20;  // a core has all that pools reserve
  const device host = device::host();
  stream queue{host};
  trace::recorder recorder{bytes{1} << 20};
  if (std::strcmp(words[1], "recorder") == 0) recorder.start();
  const auto take = [&queue](memory_source& from, bytes size, const char* file, std::uint32_t line) {
    return static_cast<char*>(from.allocate_raw(size, queue, source_location::current(file, line)).value());
  };
  const auto take_and_free = [&](memory_source& from, bytes size, const char* file, std::uint32_t line) {
    char* const b = take(from, size, file, line);
    from.free(b, source_location::current(file, line + 1));
    return b;
  };

  set_debug({.guards = true});
  {
    pool gone{host, {.limit = limit}};  // so is its guard
    gone.free(gone.allocate_raw(100, queue).value());
  }
  pool memory{host, {.limit = limit, .report_leaks = false}};
  char* const live = take(memory, 100, "a.cpp", 7);
  char* freed = nullptr;
  std::thread{[&] { freed = take(memory, 5000, "b.cpp", 8); }}.join();
  memory.free(freed, source_location::current("c.cpp", 9));

  // A program's own guards: of a watched pool, of a bare one, and of one whose adaptor tells of what they ask for.
  guard_adaptor of_watched{memory, {.leaks = false}};
  end_debug();
  pool bare{host, {.limit = limit, .report_leaks = false}};
  counting_adaptor counted{bare};
  guard_adaptor of_bare{bare, {.leaks = false}}, of_counted{counted, {.leaks = false}};
  guard_adaptor of_names{counted, {.red_zone = 0, .leaks = false}};
  cutting_source cut{bare.allocate(8000, queue).value()};
  guard_adaptor of_cut{cut, {.leaks = false}};
  char* const watched_live = take(of_watched, 300, "d.cpp", 10);
  char* const watched_freed = take_and_free(of_watched, 310, "d.cpp", 12);
  char* const bare_live = take(of_bare, 320, "e.cpp", 10);
  char* const bare_freed = take_and_free(of_bare, 330, "e.cpp", 12);
  char* const counted_live = take(of_counted, 340, "f.cpp", 10);
  char* const counted_freed = take_and_free(of_counted, 350, "f.cpp", 12);
  char* const cut_freed = take_and_free(of_cut, 370, "h.cpp", 12);
  char* const named_freed = take_and_free(of_names, 360, "g.cpp", 12);

  int on_the_stack = 0;
  look_here(&on_the_stack);
  for (const void* const b : {live, freed, watched_live, watched_freed, bare_live, bare_freed, counted_live,
                              counted_freed, cut_freed, named_freed}) {
    look_here(b);
  }
  std::abort();
}
