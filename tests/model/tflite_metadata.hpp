// A reader of what was written that shares nothing with the one of the library: of well-formed files, by the format's
// own description.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace berth::model_test {

class reader {
 public:
  explicit reader(std::string bytes) : bytes_{std::move(bytes)} {}
  [[nodiscard]] std::uint64_t number(std::size_t at, unsigned width) const {
    std::uint64_t n = 0;
    for (unsigned i = width; i-- != 0;) n = n << 8 | static_cast<unsigned char>(bytes_.at(at + i));
    return n;
  }
  [[nodiscard]] std::size_t follow(std::size_t at) const { return at + number(at, 4); }
  [[nodiscard]] std::size_t field(std::size_t table, unsigned i) const {
    const std::size_t vtable = table - static_cast<std::size_t>(static_cast<std::int32_t>(number(table, 4)));
    if (4 + 2 * i >= number(vtable, 2)) return 0;
    const auto offset = number(vtable + 4 + 2 * i, 2);
    return offset == 0 ? 0 : table + offset;
  }
  [[nodiscard]] std::vector<std::size_t> tables(std::size_t table, unsigned i) const {
    if (field(table, i) == 0) return {};
    const std::size_t list = follow(field(table, i));
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < number(list, 4); ++k) out.push_back(follow(list + 4 + 4 * k));
    return out;
  }
  [[nodiscard]] std::string text(std::size_t table, unsigned i) const {
    const std::size_t at = follow(field(table, i));
    return bytes_.substr(at + 4, number(at, 4));
  }

 private:
  std::string bytes_;
};

// Name to content of a model's metadata.
inline std::multimap<std::string, std::string> metadata_of(const std::string& bytes) {
  const reader r{bytes};
  std::multimap<std::string, std::string> out;
  const auto buffers = r.tables(r.follow(0), 4);
  for (const std::size_t entry : r.tables(r.follow(0), 6)) {
    const std::size_t buffer = buffers.at(r.number(r.field(entry, 1), 4));
    if (r.text(entry, 0) == "OfflineMemoryAllocation") {
      EXPECT_EQ((r.follow(r.field(buffer, 0)) + 4) % 16, 0u);
    }
    out.emplace(r.text(entry, 0), r.text(buffer, 0));
  }
  return out;
}

inline std::vector<std::int32_t> words(const std::string& data) {
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
    std::uint32_t n = 0;
    for (std::size_t k = 4; k-- != 0;) n = n << 8 | static_cast<unsigned char>(data[i + k]);
    out.push_back(static_cast<std::int32_t>(n));
  }
  return out;
}

// The words of the plan in a model; empty where there is not one, but none or two.
inline std::vector<std::int32_t> offline_plan_of(const std::string& bytes) {
  const auto all = metadata_of(bytes);
  return all.count("OfflineMemoryAllocation") == 1 ? words(all.find("OfflineMemoryAllocation")->second)
                                                   : std::vector<std::int32_t>{};
}

}  // namespace berth::model_test
