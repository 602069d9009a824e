// The picture: time to the right, addresses upwards, one rectangle a buffer, the bytes alive below.
//
// to_html() makes one self-contained page (viewer/page.html with the data inside): no network, no library, opens
// from a mail or a CI artefact. 100,000 buffers make a page of about 5 MB.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth::trace {

struct rectangle {
  std::string name;
  bytes offset = 0;
  bytes size = 0;
  std::int64_t lower = 0;  // [lower, upper)
  std::int64_t upper = 0;
  std::string memory;  // the pool it lives in; empty where there is one
};

struct picture {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // name and value, shown in a row
  bytes lower_bound = 0;                                   // drawn as a line where > 0
  std::vector<rectangle> rectangles;
};

// The whole page as UTF-8. Names may hold anything: they are escaped; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_html(const picture& p);

}  // namespace berth::trace
