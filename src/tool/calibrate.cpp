// berth calibrate: the cost of scratch on this machine, built with this compiler and these flags.
//
// Hardening flags change the result: -ftrivial-auto-var-init fills an inline buffer on every use, and
// -fstack-clash-protection probes it. So the threshold is measured with the flags that Berth was built with.
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "berth/scratch/scratch.hpp"
#include "tool/command_line.hpp"
#include "tool/output.hpp"
#include "tool/progress_line.hpp"
#include "tool/units.hpp"
#include "tool/verb.hpp"

namespace berth::tool {
namespace {

constexpr std::array<std::size_t, 9> sizes = {64, 256, 512, 1024, 2048, 4096, 16384, 65536, 1048576};
constexpr std::index_sequence<64, 128, 256, 512, 1024, 2048> inline_candidates;
constexpr std::size_t thread_stack = 128 << 10;
constexpr std::size_t reserve = 16 << 10;  // of that stack, left for what the innermost kernel calls

void touch(void* p) {
  asm volatile("" : : "r"(p) : "memory");
}

void both_ends(char* p, std::size_t n) {
  touch(p);
  p[0] = 1;
  p[n - 1] = 2;
  touch(p);
}

template <std::size_t InlineBytes>
[[gnu::noinline]] void use_scratch(std::size_t n) {
  scratch<char, InlineBytes> s(n);
  both_ends(s.data(), n);
}

[[gnu::noinline]] void use_malloc(std::size_t n) {
  auto* p = static_cast<char*>(std::malloc(n));
  if (p == nullptr) return;
  both_ends(p, n);
  std::free(p);
}

// Returns nanoseconds per use, the least of many batches: on a shared machine the least repeats, the mean does not.
// Slow uses (sanitizers, emulators) get a tenth of a second.
template <void (*Use)(std::size_t)>
double cost(std::size_t n) {
  using clock = std::chrono::steady_clock;
  constexpr int calls = 1000;
  double least = 1e300;
  const auto deadline = clock::now() + std::chrono::milliseconds{100};
  for (int batch = 0; batch < 1500; ++batch) {
    const auto from = clock::now();
    if (batch != 0 && from > deadline) break;
    for (int i = 0; i < calls; ++i) Use(n);
    const std::chrono::duration<double, std::nano> took = clock::now() - from;
    least = std::min(least, took.count() / calls);
  }
  return least;
}

// Returns how many frames with such a scratch a stack holds before less than the reserve is left.
template <std::size_t InlineBytes>
[[gnu::noinline]] int nest(int depth) {
  scratch<char, InlineBytes> s(InlineBytes + 1);  // more than fits inline: the arena's depth is counted too
  touch(s.data());
  const std::optional<std::size_t> left = stack_left();
  if (!left || *left < reserve) return depth;
  const int deepest = nest<InlineBytes>(depth + 1);
  touch(s.data());  // after the call, so that it is no tail call
  return deepest;
}

template <std::size_t InlineBytes>
int nesting() {
  int depth = 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, thread_stack);
  pthread_t thread;
  const auto body = [](void* out) -> void* {
    *static_cast<int*>(out) = nest<InlineBytes>(0);
    return nullptr;
  };
  if (pthread_create(&thread, &attributes, body, &depth) == 0) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return depth;
}

struct candidate {
  std::size_t inline_bytes;
  double ns;  // of a use that fills it
  int nests;
};

struct measured_size {
  std::size_t bytes;
  std::optional<double> inline_ns;  // where the largest candidate holds it
  double arena_ns;
  double malloc_ns;
};

struct calibration {
  std::vector<measured_size> by_size;
  std::vector<candidate> candidates;
  int nests_arena_only = 0;
  std::size_t inline_bytes = 0;            // the threshold that pays
  std::optional<std::size_t> malloc_from;  // malloc wins from here on
};

template <std::size_t... InlineBytes>
std::vector<candidate> measure_candidates(std::index_sequence<InlineBytes...>) {
  return {candidate{InlineBytes, cost<use_scratch<InlineBytes>>(InlineBytes), nesting<InlineBytes>()}...};
}

calibration measure(progress_line& line) {
  // glibc leaves its locks out until the process has created a thread; programs that need Berth have created some.
  std::thread{[] {}}.join();
  calibration c;
  for (const std::size_t n : sizes) {
    line.stage("measuring " + human(n));
    measured_size m{.bytes = n, .arena_ns = cost<use_scratch<0>>(n), .malloc_ns = cost<use_malloc>(n)};
    if (n <= 2048) m.inline_ns = cost<use_scratch<2048>>(n);
    c.by_size.push_back(m);
  }
  line.stage("measuring inline buffers");
  c.candidates = measure_candidates(inline_candidates);
  c.nests_arena_only = nesting<0>();

  double arena_ns = 1e300;
  for (const measured_size& m : c.by_size) arena_ns = std::min(arena_ns, m.arena_ns);
  for (const candidate& k : c.candidates)
    if (k.ns <= arena_ns) c.inline_bytes = std::max(c.inline_bytes, k.inline_bytes);
  for (auto m = c.by_size.rbegin(); m != c.by_size.rend() && m->malloc_ns < m->arena_ns; ++m) c.malloc_from = m->bytes;
  return c;
}

nlohmann::json to_json(const calibration& c) {
  nlohmann::json out{{"compiler", BERTH_COMPILER},         {"flags", BERTH_FLAGS},
                     {"inline_bytes", c.inline_bytes},     {"malloc_from", or_null(c.malloc_from)},
                     {"thread_stack_bytes", thread_stack}, {"nests_arena_only", c.nests_arena_only},
                     {"sizes", nlohmann::json::array()},   {"inline_buffers", nlohmann::json::array()}};
  for (const measured_size& m : c.by_size) {
    out["sizes"].push_back({{"bytes", m.bytes},
                            {"inline_ns", or_null(m.inline_ns)},
                            {"arena_ns", m.arena_ns},
                            {"malloc_ns", m.malloc_ns}});
  }
  for (const candidate& k : c.candidates)
    out["inline_buffers"].push_back({{"inline_bytes", k.inline_bytes}, {"ns", k.ns}, {"nests", k.nests}});
  return out;
}

void print(const calibration& c) {
  std::printf("Nanoseconds for one temporary (least of many batches, the call included)\n");
  std::printf("%s, flags \"%s\"\n\n", BERTH_COMPILER, BERTH_FLAGS);
  std::printf("  %-10s %8s %8s %8s\n", "size", "inline", "arena", "malloc");
  for (const measured_size& m : c.by_size) {
    const std::string inline_ns = m.inline_ns ? formatted("%.2f", *m.inline_ns) : "-";
    std::printf("  %-10s %8s %8.2f %8.2f\n", human(m.bytes).c_str(), inline_ns.c_str(), m.arena_ns, m.malloc_ns);
  }
  std::printf("\n  %-12s %8s   nested on a thread of %s, %s left free\n", "InlineBytes", "ns",
              human(thread_stack).c_str(), human(reserve).c_str());
  std::printf("  %-12d %8s   %d\n", 0, "-", c.nests_arena_only);
  for (const candidate& k : c.candidates) std::printf("  %-12zu %8.2f   %d\n", k.inline_bytes, k.ns, k.nests);
  if (c.inline_bytes != 0)
    std::printf(
        "\nThe threshold that pays: scratch<T, %zu>, the largest inline buffer that is cheaper than the arena.\n",
        c.inline_bytes);
  else
    std::printf("\nThe threshold that pays: scratch<T, 0>; with these flags the arena beats any inline buffer.\n");
  if (c.malloc_from)
    std::printf("malloc is faster than the arena from %s on.\n", human(*c.malloc_from).c_str());
  else
    std::printf("malloc is not faster than the arena at any size measured.\n");
}

// The largest buffer that a thread's stack bears: the bound of OpenBLAS's MAX_STACK_ALLOC, or of an inline buffer.
struct stack_limit {
  std::size_t stack = 0;    // as the thread was asked for
  std::size_t largest = 0;  // a buffer of so many bytes could be written from end to end; 64 more could not
  std::size_t safe = 0;     // ... less what is left for the frames below it
};

// Left for calls of the function with the buffer, and for a signal handler.
constexpr std::size_t stack_reserve = 16 << 10;

constexpr std::size_t stack_step = 64;

// Fills from the high end down, as the stack grows, so that it meets the guard page before anything behind it.
[[gnu::noinline]] void* fill(void* size) {
  const std::size_t n = *static_cast<const std::size_t*>(size);
  volatile char* const buffer = static_cast<char*>(alloca(n));
  for (std::size_t i = n; i != 0; i -= std::min<std::size_t>(i, 256)) buffer[i - 1] = 1;
  buffer[0] = 1;
  return nullptr;
}

[[noreturn]] void be_the_child(std::size_t stack, std::size_t size) {
  const rlimit none{0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
  const int silence = open("/dev/null", O_WRONLY);
  if (silence >= 0) (void)dup2(silence, STDERR_FILENO);
  pthread_attr_t attributes;
  pthread_t thread;
  const bool made = pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack) == 0 &&
                    pthread_create(&thread, &attributes, fill, &size) == 0;
  if (!made) _exit(1);
  pthread_join(thread, nullptr);
  _exit(0);
}

// Returns whether a thread could be had and lived.
bool attempt(std::size_t stack, std::size_t size) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) be_the_child(stack, size);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Tries buffers, doubled and then halved in between, each on a thread of a child process, where it may overflow.
// Returns nothing without such a thread or child. Takes some 20 children: about 10 ms. Not for builds in which a stack
// overflow is no signal (sanitizers' fake stacks).
std::optional<stack_limit> find_stack_limit(std::size_t stack) {
  if (!attempt(stack, 1)) return std::nullopt;
  std::size_t bears = 0, overflows = stack_step;
  while (overflows <= stack && attempt(stack, overflows)) {
    bears = overflows;
    overflows *= 2;
  }
  while (overflows - bears > stack_step) {
    const std::size_t between = bears + (overflows - bears) / 2 / stack_step * stack_step;
    (attempt(stack, between) ? bears : overflows) = between;
  }
  return stack_limit{stack, bears, bears > stack_reserve ? bears - stack_reserve : 0};
}

void print(const stack_limit& l) {
  std::printf("On a thread with a stack of %s:\n", human_exactly(l.stack).c_str());
  std::printf("  %-10s the largest buffer that it bears\n", human_exactly(l.largest).c_str());
  std::printf("  %-10s the safe limit: %s is left for what is called below it\n", human_exactly(l.safe).c_str(),
              human(stack_reserve).c_str());
}

int tell_stack_limit(bytes stack, bool json) {
  constexpr bytes most = bytes{1} << 30;  // it is written all over, some twenty times
  if (stack > most) throw usage_error("--stack: " + human(stack) + " are more than the 1 GiB that are tried");
  const auto limit = fits_size_t(stack) ? find_stack_limit(static_cast<std::size_t>(stack)) : std::nullopt;
  if (!limit) throw usage_error("--stack: there is no thread with a stack of " + human(stack));
  if (json) {
    print_json(nlohmann::json{{"thread_stack_bytes", limit->stack},
                              {"largest_bytes", limit->largest},
                              {"reserve_bytes", stack_reserve},
                              {"safe_bytes", limit->safe}});
  } else {
    print(*limit);
  }
  return done;
}

}  // namespace

std::function<int()> declare_calibrate(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "One JSON object on standard output");
  auto stack = std::make_shared<std::optional<bytes>>();
  add_bytes_option(app, "--stack", *stack, "Only the largest buffer that a thread with a stack of so much bears");
  return [json, stack] {
    if (*stack) return tell_stack_limit(**stack, *json);
    std::optional<progress_line> line{std::in_place, !*json};
    const calibration c = measure(*line);
    line.reset();
    if (*json)
      print_json(to_json(c));
    else
      print(c);
    return static_cast<int>(done);
  };
}

}  // namespace berth::tool
