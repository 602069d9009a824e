// The rules and the listing of a text on OpenBLAS's STACK_ALLOC, one case each. The comment before an assertion is the
// sentence's meaning.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "berth/scratch/scratch.hpp"
#include "berth/scratch/scratch_arena.hpp"
#include "berth/stack_alloc.h"
#include "openblas_kernels.h"
#include "support/sanitizers.hpp"

namespace {

template <class T>
bool is_aligned(std::size_t n) {
  T* buffer = nullptr;
  STACK_ALLOC(n, T, buffer);
  const bool out = buffer != nullptr && reinterpret_cast<std::uintptr_t>(buffer) % 64 == 0;
  STACK_FREE(buffer);
  return out;
}

// Runs f on a thread with a stack of 64 KiB, 256 KiB under a sanitizer, or the system's minimum if that is larger.
void on_small_stack(void* (*f)(void*), void* context) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  const bool sanitized = berth::support::address_sanitized || berth::support::thread_sanitized;
  const std::size_t wanted = (sanitized ? 256u : 64u) << 10;
  const std::size_t least = std::max<long>(sysconf(_SC_THREAD_STACK_MIN), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::max(wanted, least)), 0);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, f, context), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

// "Lower latency than malloc": a buffer costs no call of the heap once the first round has run.
TEST(openblas_stack_alloc, calls_no_heap_after_the_first_round) {
  EXPECT_EQ(sum_in_own_form(4000), 4000);
  const std::uint64_t before = berth_scratch_statistics_of_thread().growths;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(sum_in_own_form(4000), 4000);
  EXPECT_EQ(berth_scratch_statistics_of_thread().growths, before);
}

// The listing: STACK_ALLOC(SIZE, TYPE, BUFFER) declares TYPE* BUFFER with room for SIZE elements.
TEST(openblas_stack_alloc, the_printed_form_declares_its_buffer) {
  for (const std::uint64_t n : {0, 1, 255, 256, 257, 100'000})
    EXPECT_EQ(sum_in_printed_form(n), static_cast<double>(n));
}

// OpenBLAS's own macro assigns to a buffer that its caller declared. Both forms are there.
TEST(openblas_stack_alloc, openblas_own_form_assigns_to_a_variable) {
  for (const std::uint64_t n : {0, 1, 255, 256, 257, 100'000}) EXPECT_EQ(sum_in_own_form(n), static_cast<double>(n));
}

// "Below MAX_STACK_ALLOC the stack, above it the heap". Here a size never changes the way. The default of OpenBLAS is
// 2048 bytes, or 256 doubles. (The sources test openblas_max_stack_alloc compiles other limits.)
TEST(openblas_stack_alloc, sizes_around_the_threshold_come_from_one_arena) {
  for (const std::uint64_t n : {255, 256, 257}) {
    const std::uint64_t blocks = berth_scratch_statistics_of_thread().blocks;
    EXPECT_EQ(sum_in_own_form(n), static_cast<double>(n));
    EXPECT_EQ(berth_scratch_statistics_of_thread().blocks, blocks + 1);
  }
}

// The listing multiplies SIZE by sizeof(TYPE): a product that is no size gives no buffer.
TEST(openblas_stack_alloc, a_product_that_overflows_gives_null) {
  EXPECT_EQ(sum_in_printed_form(std::numeric_limits<std::uint64_t>::max()), -1);
  EXPECT_EQ(sum_in_own_form(std::uint64_t{1} << 61), -1);
}

// "A buffer beyond the stack's limit ends in a segmentation fault; the limit is usually 8 MB". Not here, also on a
// thread of 64 KiB and with hidden limits of embedded systems.
TEST(openblas_stack_alloc, a_small_stack_bears_a_buffer_of_any_size) {
  double sum = 0;
  on_small_stack(
      [](void* to) -> void* {
        *static_cast<double*>(to) = sum_in_own_form(2'000'000);
        return nullptr;
      },
      &sum);
  EXPECT_EQ(sum, 2'000'000);
}

// "Start with small buffers and increase the size to find where it is stable": it is stable at every size.
TEST(openblas_stack_alloc, every_size_of_a_growing_series_works) {
  for (std::uint64_t n = 1; n <= 4'000'000; n *= 3) EXPECT_EQ(sum_in_own_form(n), static_cast<double>(n));
  EXPECT_EQ(berth_scratch_statistics_of_thread().in_use, 0u);
}

// "STACK_FREE must go with each STACK_ALLOC": afterwards nothing is in use.
TEST(openblas_stack_alloc, stack_free_returns_all_memory) {
  std::vector<double*> buffers;
  for (int i = 0; i < 50; ++i) buffers.push_back(made_here(static_cast<std::uint64_t>(i) * 100));
  EXPECT_GT(berth_scratch_statistics_of_thread().in_use, 0u);
  for (double* b : buffers) give_back(b);
  EXPECT_EQ(berth_scratch_statistics_of_thread().in_use, 0u);
}

// "The memory's life ends with the function; it cannot be passed across functions": here it lives until STACK_FREE.
TEST(openblas_stack_alloc, a_buffer_outlives_the_function_that_allocated_it) {
  double* const buffer = made_here(100);
  ASSERT_NE(buffer, nullptr);
  std::fill_n(buffer, 100, 3.0);
  EXPECT_EQ(sum_in_own_form(5000), 5000);
  EXPECT_TRUE(std::all_of(buffer, buffer + 100, [](double x) { return x == 3.0; }));
  give_back(buffer);
}

// "ARM requires aligned access; a badly aligned buffer ends in a bus error": each starts at a multiple of 64.
TEST(openblas_stack_alloc, buffers_of_all_types_and_sizes_are_aligned_to_64) {
  for (std::size_t n = 0; n < 200; ++n) {
    EXPECT_TRUE(is_aligned<char>(n));
    EXPECT_TRUE(is_aligned<float>(n));
    EXPECT_TRUE(is_aligned<double>(n));
    EXPECT_TRUE(is_aligned<long double>(n));
  }
}

#if !defined(BERTH_SCRATCH_POISONS)

// Runs in a child: changes the byte at this offset of a buffer, which lies between two others, and frees all three.
// Returns whether that was noticed.
bool is_noticed(std::ptrdiff_t offset, std::size_t zone) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(0);
    if (zone != 0) {
      berth_scratch_trim();
      berth::set_scratch_zone(zone);
      give_back(made_here(10'000));  // a round before, which opens the fast path of an arena that is not watched
    }
    char* before = nullptr;
    char* buffer = nullptr;
    char* behind = nullptr;
    STACK_ALLOC(64, char, before);
    STACK_ALLOC(80, char, buffer);
    STACK_ALLOC(64, char, behind);
    volatile char* const written = buffer + offset;
    *written = static_cast<char>(*written ^ 0x5a);
    STACK_FREE(buffer);
    STACK_FREE(behind);
    STACK_FREE(before);
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

// "Check pointers and the bounds of memory accesses", in every build: the 8 bytes on both sides.
TEST(openblas_stack_alloc, eight_bytes_on_both_sides_are_checked_in_every_build) {
  for (std::ptrdiff_t k = 0; k < 8; ++k) {
    EXPECT_TRUE(is_noticed(-1 - k, 0)) << k;
    EXPECT_TRUE(is_noticed(80 + k, 0)) << k;
  }
}

// The same while debugging: every byte of the red zones, of any width.
TEST(openblas_stack_alloc, every_byte_of_a_red_zone_is_checked_while_debugging) {
  for (const std::ptrdiff_t zone : {64, 128})
    for (std::ptrdiff_t k = 0; k < zone; ++k) {
      EXPECT_TRUE(is_noticed(-1 - k, static_cast<std::size_t>(zone))) << k;
      EXPECT_TRUE(is_noticed(80 + k, static_cast<std::size_t>(zone))) << k;
    }
}

using openblas_stack_alloc_death = testing::Test;

// "gdb and a backtrace find the place of the fault". The program stops at STACK_FREE, and the line names that place,
// the distance and the place of the STACK_ALLOC.
TEST(openblas_stack_alloc_death, a_mistake_names_its_places) {
  EXPECT_DEATH(
      {
        berth_scratch_trim();
        berth::set_scratch_zone(64);
        double* buffer = nullptr;
        STACK_ALLOC(10, double, buffer);
        static_cast<volatile double*>(buffer)[11] = 1;
        STACK_FREE(buffer);
      },
      "stack_alloc_test.cpp:[0-9]+: contract: scratch: bytes were written past the end of a block of 80 bytes: the "
      "nearest is byte (9|1[0-6]) there; the block was allocated at .*stack_alloc_test.cpp:[0-9]+");
  double* const buffer = made_here(10);
  give_back(buffer);
  EXPECT_DEATH(give_back(buffer), "openblas_own_form.c:[0-9]+: contract: .*does not live in this arena");
}

TEST(openblas_stack_alloc_death, a_double_free_is_noticed_while_debugging) {
  EXPECT_DEATH(
      {
        berth_scratch_trim();
        berth::set_scratch_zone(64);
        double* const watched = made_here(10);
        double* const above = made_here(10);
        give_back(watched);
        give_back(watched);
        give_back(above);
      },
      "contract: ");
}

#endif

// Red zones keep the alignment, the order of frees and the figures.
TEST(openblas_stack_alloc, watched_buffers_serve_as_others_do) {
  const pid_t child = fork();
  if (child == 0) {
    berth_scratch_trim();
    berth::set_scratch_zone(100);
    void* const aligned = berth_scratch_allocate_aligned(100, 1, 4096);
    if (reinterpret_cast<std::uintptr_t>(aligned) % 4096 != 0) _exit(1);
    if (sum_in_own_form(5000) != 5000 || sum_in_own_form(std::uint64_t{1} << 60) != -1) _exit(2);
    double* a = made_here(1);
    double* b = made_here(0);
    give_back(a);
    berth::this_thread_arena().check_invariants();
    give_back(b);
    berth_scratch_free(aligned);
    berth::this_thread_arena().check_invariants();
    _exit(berth_scratch_statistics_of_thread().in_use == 0 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Returns the lines that a program prints: the forgotten line, and then Berth's report.
std::vector<std::string> lines_of(const std::string& command) {
  std::vector<std::string> out;
  std::FILE* const from = popen((command + " 2>&1").c_str(), "r");
  char text[1024];
  while (from != nullptr && std::fgets(text, sizeof text, from) != nullptr) out.emplace_back(text);
  EXPECT_TRUE(from != nullptr && pclose(from) == 0) << command;
  return out;
}

// "Without STACK_FREE memory leaks". Each forgotten STACK_FREE is reported with the file and line of its STACK_ALLOC,
// at the end of its thread or of the program.
TEST(openblas_stack_alloc, a_forgotten_stack_free_is_reported_with_its_place) {
  if (berth::support::address_sanitized || berth::support::emulated) GTEST_SKIP() << "the leak detector ends it";
  for (const std::string where : {"thread", "main", "running"}) {
    const std::vector<std::string> lines = lines_of("BERTH_DEBUG=leaks " OPENBLAS_FORGETS " " + where);
    ASSERT_EQ(lines.size(), 2u) << where;
    const std::string place = "openblas_own_form.c:" + std::to_string(std::atoi(lines[0].c_str())) + ": ";
    EXPECT_NE(lines[1].find(place), std::string::npos) << lines[1];
    EXPECT_NE(lines[1].find("scratch: leak: 3 blocks of 2400 bytes in all not freed"), std::string::npos) << lines[1];
    EXPECT_NE(lines[1].find(where == "running" ? "the program ended" : "the thread ended"), std::string::npos);
  }
  EXPECT_EQ(lines_of("BERTH_DEBUG=leaks " OPENBLAS_FORGETS " none").size(), 1u);
  EXPECT_EQ(lines_of("BERTH_DEBUG=warn " OPENBLAS_FORGETS " main").size(), 1u);
}

}  // namespace
