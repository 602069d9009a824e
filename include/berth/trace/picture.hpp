// The picture: time to the right, addresses upwards, one rectangle a buffer, the bytes alive below.
//
// to_html() makes one self-contained page (viewer/page.html with the data inside): no network, no library, opens from a
// mail or a CI artefact. 100,000 buffers make a page of about 4 MB. What is smaller than a pixel is drawn by how much
// of the pixel it covers. Of more than 400,000 buffers the page holds those that cover most (bytes times time); the
// rest is still in the curve of the bytes alive, and the page says how many it is.
//
// With `before` the page shows two plans side by side on one scale: what moved, grew, shrank, is new or gone is marked,
// and listed. Buffers of one name are the same one. Of more than it holds, a buffer is in both pictures or in neither.
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
  // Where the times are numbers of events: by event, and one more for the end, when it happened, in microseconds. Empty
  // else. Never falls.
  std::vector<double> when_us{};
  // Where the offsets stand for addresses from which long unused stretches were taken out: the offset at which each
  // stretch begins that was kept, with its address, in rising order. An address of max_bytes: what is shown from there
  // on was stitched, so that its place here says nothing of its address. Empty where the offset says all.
  std::vector<std::pair<bytes, std::uint64_t>> addresses{};
  // Contract: there are neither when_us nor addresses then.
  std::optional<former_picture> before{};
};

// Turns addresses in rectangle::offset into offsets, with `addresses` beside them: stretches that nobody uses and that
// are longer than 1/32 of what is used are taken out. Contract: one memory.
void close_gaps(picture& p);

// The whole page as UTF-8. Names may hold anything: they are escaped; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_html(const picture& p);

// Chrome's trace events (JSON object form): a counter of the bytes alive, and each buffer as a slice on the first of
// some tracks that is free then. A tick of a plan is one microsecond; beyond 2^53 they are counted from the first one,
// which otherData.tick_base says. What was before is left out.
[[nodiscard]] std::string to_chrome_json(const picture& p);

}  // namespace berth::trace
#pragma GCC visibility pop
