// A guard's pages: hiding those behind blocks, and showing them again.
#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "device/host/system.hpp"
#include "pool/guard/guard_state.hpp"

namespace berth {

using detail::guarded;

void guard_adaptor::state::hide_page(guarded& b) noexcept {
  b.page_hidden = detail::hide_pages(b.page, detail::page_size());
  if (b.page_hidden) return;
  ++sums.unpaged;
  if (std::exchange(said_unpaged, true)) return;
  std::fprintf(stderr,
               "berth: guard: no page behind a block, as %zu are hidden (vm.max_map_count) or the system refused; "
               "patterns there and behind others that find none\n",
               detail::most_hidden_ranges());
}

void guard_adaptor::state::hide_page_when_done(guarded& b) noexcept try {
  unpaged.emplace_back(&b, b.number);
} catch (const std::bad_alloc&) {
  ++sums.unpaged;
}

void guard_adaptor::state::hide_pages_that_are_due() noexcept {
  for (std::size_t not_due = 0; not_due < std::min<std::size_t>(4, unpaged.size());) {
    if (next_unpaged >= unpaged.size()) next_unpaged = 0;
    const auto [b, number] = unpaged[next_unpaged];
    const bool waits = b->data != nullptr && b->number == number && !b->freed;
    if (waits && b->zones && !b->can_be_looked_at()) {
      ++not_due, ++next_unpaged;
    } else {
      if (waits) b->zones ? hide_page(*b) : void(++sums.unpaged);
      unpaged[next_unpaged] = unpaged.back();
      unpaged.pop_back();
    }
  }
}

bool guard_adaptor::state::show(guarded& b) noexcept {
  if (!b.page_hidden && !b.hidden) return true;
  if (b.hidden) --hidden_blocks, --detail::hidden_in_quarantines;
  b.page_hidden = b.hidden = false;
  return detail::show_pages(b.raw, b.taken);
}

}  // namespace berth
