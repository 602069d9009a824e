// Memory of the host that exists already, registered with a device (BERTH_DEVICE; host by default).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "berth/device/device.hpp"
#include "berth/device/stream.hpp"
#include "berth/stream.h"

namespace berth {
namespace {

const char* device_name() {
  const char* const named = std::getenv("BERTH_DEVICE");
  return named != nullptr ? named : "host";
}

// Pages of the program's own.
class pages {
 public:
  explicit pages(std::size_t size) : size_{size} {
    void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    data_ = static_cast<std::byte*>(at);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() { munmap(data_, size_); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
};

constexpr bytes size = 3 * 65536;  // whole pages on every machine

class registered : public testing::Test {
 protected:
  device d = device::open(device_name()).value();
  pages mine{size};
};

TEST_F(registered, memory_has_a_device_address_and_is_used_in_place) {
  const auto before = d.statistics();
  void* const address = d.register_memory(mine.data(), size).value();
  EXPECT_EQ(d.kind_of(address), memory_kind::pinned);
  EXPECT_EQ(d.kind_of(static_cast<std::byte*>(address) + size - 1), memory_kind::pinned);
  EXPECT_EQ(d.host_address(static_cast<std::byte*>(address) + 5), mine.data() + 5);
  EXPECT_EQ(d.statistics().registered, before.registered + size);
  {
    stream s{d};
    void* const block = d.allocate(4096).value();
    std::memset(mine.data(), 7, size);
    ASSERT_TRUE(s.copy(block, address, 4096));
    ASSERT_TRUE(s.copy(static_cast<std::byte*>(address) + 8192, block, 4096));
    ASSERT_TRUE(s.fill(address, std::byte{9}, 64));
    ASSERT_TRUE(s.synchronize());
    EXPECT_EQ(mine.data()[0], std::byte{9});
    EXPECT_EQ(mine.data()[64], std::byte{7});
    EXPECT_EQ(mine.data()[8192 + 4095], std::byte{7});
    EXPECT_EQ(d.statistics().staged_copies, before.staged_copies);
    d.free(block, 4096);
  }
  ASSERT_TRUE(d.unregister_memory(address, size));
  EXPECT_EQ(d.statistics().registered, before.registered);
  EXPECT_EQ(d.kind_of(address), std::nullopt);
  void* const again = d.register_memory(mine.data(), size).value();
  ASSERT_TRUE(d.unregister_memory(again, size));
}

// The rate counts memory that is shared against bytes that are copied.
TEST_F(registered, zero_copy_use_is_the_share_that_nobody_copies) {
  const auto before = d.statistics();
  void* const address = d.register_memory(mine.data(), size).value();
  stream s{d};
  void* const block = d.allocate(size).value();
  std::vector<std::byte> pageable(size / 3);
  ASSERT_TRUE(s.copy(block, pageable.data(), pageable.size()));
  ASSERT_TRUE(s.synchronize());
  const auto after = d.statistics();
  const bool exchanges = !d.properties().host_accessible;
  EXPECT_EQ(after.zero_copy_bytes - before.zero_copy_bytes, exchanges ? size : 0);
  EXPECT_EQ(after.exchanged_bytes - before.exchanged_bytes, exchanges ? size / 3 : 0);
  device_statistics one;
  EXPECT_EQ(one.zero_copy_use(), 1);
  one.zero_copy_bytes = 3;
  one.exchanged_bytes = 1;
  EXPECT_EQ(one.zero_copy_use(), 0.75);
  d.free(block, size);
  ASSERT_TRUE(d.unregister_memory(address, size));
}

TEST_F(registered, what_cannot_be_registered_changes_nothing) {
  const auto code = [](const auto& r) { return r ? errc{} : r.error().code; };
  EXPECT_EQ(code(d.register_memory(nullptr, size)), errc::invalid_input);
  EXPECT_EQ(code(d.register_memory(mine.data(), 0)), errc::invalid_input);
  void* const address = d.register_memory(mine.data() + 65536, 65536).value();
  EXPECT_EQ(code(d.register_memory(mine.data() + 65536, 65536)), errc::invalid_input);  // twice
  EXPECT_EQ(code(d.register_memory(mine.data(), size)), errc::invalid_input);           // around it
  EXPECT_EQ(code(d.register_memory(mine.data(), 65537)), errc::invalid_input);          // its first byte
  EXPECT_EQ(code(d.register_memory(mine.data() + 69632, 4096)), errc::invalid_input);   // inside
  EXPECT_EQ(code(d.unregister_memory(address, 4096)), errc::invalid_input);
  EXPECT_EQ(code(d.unregister_memory(mine.data(), 65536)), errc::invalid_input);
  EXPECT_EQ(d.statistics().registered, 65536u);
  void* const before = d.register_memory(mine.data(), 65536).value();  // its neighbour is free
  ASSERT_TRUE(d.unregister_memory(before, 65536));
  ASSERT_TRUE(d.unregister_memory(address, 65536));
  EXPECT_EQ(code(d.unregister_memory(address, 65536)), errc::invalid_input);
  EXPECT_EQ(d.statistics().registered, 0u);
}

TEST(registered_elsewhere, the_null_device_registers_nothing) {
  const pages mine{4096};
  const auto made = device::open("null").value().register_memory(mine.data(), 4096);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::unsupported);
}

TEST(registered_in_c, has_the_same_errors) {
  const pages mine{65536};
  berth_device* d = nullptr;
  void* address = nullptr;
  ASSERT_EQ(berth_device_open(device_name(), &d), BERTH_OK) << berth_error_text();
  ASSERT_EQ(berth_device_register(d, mine.data(), 65536, &address), BERTH_OK) << berth_error_text();
  void* none = nullptr;
  EXPECT_EQ(berth_device_register(d, mine.data(), 65536, &none), BERTH_INVALID);
  EXPECT_STREQ(berth_error_text(), "device: this memory is registered already, or is the device's");
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(berth_device_register(d, mine.data(), 65536, nullptr), BERTH_INVALID);
  EXPECT_EQ(berth_device_unregister(d, mine.data() + 1, 65536), BERTH_INVALID);
  EXPECT_EQ(berth_device_unregister(d, address, 65536), BERTH_OK);
  EXPECT_EQ(berth_device_unregister(d, address, 65536), BERTH_INVALID);
  EXPECT_EQ(berth_device_unregister(nullptr, address, 65536), BERTH_NO_SUCH_HANDLE);
  berth_device_close(d);
}

}  // namespace
}  // namespace berth
