// The picture: time to the right, addresses upwards, one rectangle a buffer, the bytes alive below.
//
// to_html() makes one self-contained page (viewer/page.html with the data inside). It needs no network and no library,
// and opens from a mail or a CI artefact. 100,000 buffers make a page of about 4 MB. A shape below a pixel is drawn by
// the part of the pixel that it covers. Above 400,000 buffers the page holds those that cover most (bytes times time).
// The curve of live bytes still counts the others, and the page says how many they are.
//
// With `before` the page shows two plans side by side on one scale. It marks and lists buffers that moved, grew,
// shrank, are new or gone. Buffers of one name are the same one. A buffer left out is left out of both pictures.
//
// to_chrome_json() makes the same a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.
#pragma once
#pragma GCC visibility push(default)

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth/core/bytes.hpp"

namespace berth::trace {

struct rectangle {
  std::string name{};
  bytes offset = 0;
  bytes size = 0;
  std::int64_t lower = 0;  // [lower, upper)
  std::int64_t upper = 0;
  std::string memory{};  // the pool it lives in; empty where there is one
};

// A plan that was, of what another picture shows.
struct former_picture {
  std::string title{};
  bytes lower_bound = 0;
  std::vector<rectangle> rectangles{};
};

// A request that was not served, and the largest hole at that time.
struct failed_mark {
  std::int64_t at = 0;
  bytes size = 0;
  bytes hole = 0;        // its size; 0: not known
  bytes hole_begin = 0;  // as rectangle::offset
};

struct picture {
  std::string title{};
  std::optional<failed_mark> failed{};
  std::vector<std::pair<std::string, std::string>> facts{};  // name and value, shown in a row
  bytes lower_bound = 0;                                     // drawn as a line where > 0
  std::string lower_bound_name = "lower bound";
  std::string tick = "tick";  // what the times count
  std::vector<rectangle> rectangles{};
  // If the times are numbers of events: the microseconds of each event, and one more for the end. Empty otherwise.
  // Never falls.
  std::vector<double> when_us{};
  // The stretches kept if long unused ones were taken out of the addresses: the offset at which each begins, and its
  // address, in rising order. An address of max_bytes marks stitched memory, whose place here says nothing of its
  // address. Empty if offsets are addresses.
  std::vector<std::pair<bytes, std::uint64_t>> addresses{};
  // Contract: when_us and addresses are empty if this is set.
  std::optional<former_picture> before{};
};

// Turns addresses in rectangle::offset into offsets, with `addresses` beside them. Takes out unused stretches that are
// longer than 1/32 of the bytes used. Contract: one memory.
void close_gaps(picture& p);

// The whole page as UTF-8. Names may hold anything: they are escaped; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_html(const picture& p);

// Returns Chrome's trace events (JSON object form): a counter of the live bytes, and each buffer as a slice on the
// first free track. A tick of a plan is one microsecond. Ticks beyond 2^53 are counted from the first one, in
// otherData.tick_base. Leaves `before` out.
[[nodiscard]] std::string to_chrome_json(const picture& p);

}  // namespace berth::trace
#pragma GCC visibility pop
