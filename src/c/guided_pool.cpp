// The functions of berth/guided_pool.h. Blocks are served behind berth/pool.h.
#include "berth/guided_pool.h"

#include "c/objects.hpp"
#include "c/solve_options.hpp"

namespace {

using namespace berth::c;

template <class Do>
berth_status on_guided(const berth_pool* handle, Do do_it) noexcept {
  return with(pools(), handle, [&](held_pool& held) {
    if (!held.guided) return fail(BERTH_INVALID, "the pool is not guided (see berth_guided_pool_create)");
    return do_it(*held.guided);
  });
}

}  // namespace

extern "C" {

berth_status berth_guided_pool_create(const berth_device* device, const berth_pool_options* options,
                                      const berth_solve_options* search, berth_pool** out) {
  berth_solve_options in{};
  berth::plan::options by;
  if (const auto no = options_of(search, in, by)) return no;
  if (in.progress != nullptr) return fail(BERTH_INVALID, "solve options: a guided pool tells no progress");
  return create_pool(device, options, &by, out);
}

berth_status berth_guided_pool_begin_step(berth_pool* pool) {
  return on_guided(pool, [](berth::guided_pool& p) {
    p.begin_step();
    return succeed();
  });
}

berth_status berth_guided_pool_relearn(berth_pool* pool) {
  return on_guided(pool, [](berth::guided_pool& p) {
    p.relearn();
    return succeed();
  });
}

berth_status berth_guided_pool_statistics_of(const berth_pool* pool, berth_guided_pool_statistics* statistics) {
  return on_guided(pool, [&](const berth::guided_pool& p) {
    const berth::guided_statistics known = p.statistics();
    berth_guided_pool_statistics s{};
    s.steps = known.steps;
    s.planned = known.planned;
    s.elsewhere = known.elsewhere;
    s.passed = known.passed;
    s.broken_up = known.broken_up;
    s.streams_planned = known.streams_planned;
    s.parts = known.parts;
    s.lower_bound = known.lower_bound;
    s.refusal = known.refusal;
    return write(s, sizeof s, statistics, "guided pool statistics: null, or wrong struct_size");
  });
}

}  // extern "C"
