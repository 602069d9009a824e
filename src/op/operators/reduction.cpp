// Reductions over any dimensions: summed in f64 where elements are floats, modulo 2^64 where they are integers.
#include <algorithm>
#include <array>
#include <limits>

#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

template <class C>
using sum_of = std::conditional_t<std::is_floating_point_v<C>, double, C>;

// The state over the elements so far: `first`, and their sum over e^first for the logarithm of a sum of exponentials.
template <class A>
struct partial {
  A first;
  double second = 0;
};

// One kind of reduction: its start, the addition of a row, the result at the end.
template <class C>
struct reduction_kind {
  using A = sum_of<C>;
  A begin = 0;
  void (*add)(partial<A>& so_far, const C* row, std::int64_t count);
  A (*end)(const partial<A>& all, std::int64_t count);
};

template <class A>
A as_it_is(const partial<A>& all, std::int64_t) {
  return all.first;
}
template <class A>
A over_count(const partial<A>& all, std::int64_t count) {
  return quotient(all.first, static_cast<A>(count));
}
template <class A>
A root(const partial<A>& all, std::int64_t) {
  return from_real<A>(std::sqrt(static_cast<double>(all.first)));
}
template <class A>
A logarithm(const partial<A>& all, std::int64_t) {
  return from_real<A>(std::log(static_cast<double>(all.first)));
}
template <class A>
A shifted_logarithm(const partial<A>& all, std::int64_t) {
  return from_real<A>(static_cast<double>(all.first) + std::log(all.second));
}

template <class C, auto Term>
void add_terms(partial<sum_of<C>>& so_far, const C* row, std::int64_t count) {
  sum_of<C> total = so_far.first;
  for (std::int64_t i = 0; i < count; ++i) total = sum(total, Term(static_cast<sum_of<C>>(row[i])));
  so_far.first = total;
}
template <class C>
void multiply_terms(partial<sum_of<C>>& so_far, const C* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) so_far.first = times(so_far.first, static_cast<sum_of<C>>(row[i]));
}
template <class C>
void raise(partial<sum_of<C>>& so_far, const C* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<sum_of<C>>(row[i]);
    if (x > so_far.first || x != x) so_far.first = x;
  }
}
template <class C>
void lower(partial<sum_of<C>>& so_far, const C* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<sum_of<C>>(row[i]);
    if (x < so_far.first || x != x) so_far.first = x;
  }
}
// Online: the sum is rescaled where a larger element comes (Milakov and Gimelshein 2018, arXiv:1805.02867).
template <class C>
void add_exponentials(partial<sum_of<C>>& so_far, const C* row, std::int64_t count) {
  auto most = static_cast<double>(so_far.first), total = so_far.second;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(row[i]);
    if (x > most) {
      total = total * std::exp(most - x) + 1;
      most = x;
    } else {
      total += most == x ? 1 : std::exp(x - most);
    }
  }
  so_far = {from_real<sum_of<C>>(most), total};
}

template <class A>
constexpr A same(A x) {
  return x;
}
template <class A>
constexpr A square(A x) {
  return times(x, x);
}
template <class A>
constexpr A magnitude(A x) {
  return x < 0 ? difference(A{0}, x) : x;
}

template <class C>
reduction_kind<C> kind_of(std::string_view op) {
  using A = sum_of<C>;
  using limits = std::numeric_limits<A>;
  constexpr A lowest = limits::has_infinity ? -limits::infinity() : limits::lowest();
  constexpr A highest = limits::has_infinity ? limits::infinity() : limits::max();
  if (op == "ReduceMax") return {lowest, raise<C>, as_it_is<A>};
  if (op == "ReduceMin") return {highest, lower<C>, as_it_is<A>};
  if (op == "ReduceProd") return {1, multiply_terms<C>, as_it_is<A>};
  if (op == "ReduceMean") return {0, add_terms<C, same<A>>, over_count<A>};
  if (op == "ReduceL1") return {0, add_terms<C, magnitude<A>>, as_it_is<A>};
  if (op == "ReduceL2") return {0, add_terms<C, square<A>>, root<A>};
  if (op == "ReduceLogSum") return {0, add_terms<C, same<A>>, logarithm<A>};
  if (op == "ReduceLogSumExp") return {lowest, add_exponentials<C>, shifted_logarithm<A>};
  if (op == "ReduceSumSquare") return {0, add_terms<C, square<A>>, as_it_is<A>};
  return {0, add_terms<C, same<A>>, as_it_is<A>};
}

bool keeps(const request& q) {
  return attribute_or<std::int64_t>(q, "keepdims", 1) != 0;
}

// The dimensions kept (of input and result) and the dimensions reduced (of the input).
struct reduction_nests {
  nest kept, reduced;
  std::int64_t count = 1;
};

reduction_nests nests_of(const tensor_type& from, const tensor_type& to, const std::vector<std::size_t>& axes,
                         bool keep) {
  const strides from_by = strides_of(from), to_by = strides_of(to);
  shape kept, gone;
  strides kept_from, kept_to, gone_from;
  std::int64_t count = 1;
  std::size_t next = 0;
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    const bool is_gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    (is_gone ? gone : kept).push_back(from.shape[d]);
    (is_gone ? gone_from : kept_from).push_back(from_by[d]);
    if (is_gone) count *= from.shape[d];
    if (!is_gone) kept_to.push_back(to_by[next]);
    if (!is_gone || keep) ++next;
  }
  return {nest{kept, {kept_from, kept_to}}, nest{gone, {gone_from}}, count};
}

template <class C>
made reduce_as(const request& q, const types& outputs) {
  const tensor_type& from = input(q, 0);
  const auto run = [n = nests_of(from, outputs[0], reduced_axes(q), keeps(q)), kind = kind_of<C>(q.op),
                    load = load_as<C>(from.type), store = store_as<sum_of<C>>(outputs[0].type)](bases at, void*) {
    const std::array<std::byte*, 2> both{at[0], at[1]};
    n.kept.each(both, [&](const nest::point& here) {
      partial<sum_of<C>> so_far{kind.begin};
      const std::array<std::byte*, 1> begin{here[0]};
      n.reduced.rows(begin, [&](std::byte* const* part) {
        std::array<C, chunk> buffer;
        for (std::int64_t done = 0; done < n.reduced.row(); done += chunk) {
          const std::int64_t count = std::min(chunk, n.reduced.row() - done);
          load(part[0] + done * n.reduced.stride(0), n.reduced.stride(0), count, buffer.data());
          kind.add(so_far, buffer.data(), count);
        }
      });
      const sum_of<C> result = kind.end(so_far, n.count);
      store(&result, here[1], 0, 1);
    });
  };
  return function(q, outputs, run);
}

types reduction_type(const request& q) {
  (void)require_number(q, 0);
  return {dense(input(q, 0).type, reduced(shape_of(q, 0), reduced_axes(q), keeps(q)))};
}

made reduce(const request& q, const types& outputs) {
  return in_domain(domain_of(input(q, 0).type), [&]<class C>(C) { return reduce_as<C>(q, outputs); });
}

#define BERTH_REDUCTION(NAME) \
  { NAME, 2, 2, true, reduction_type, reduce, "64x1024" }

constexpr definition reduction_table[] = {
    BERTH_REDUCTION("ReduceL1"),        BERTH_REDUCTION("ReduceL2"),   BERTH_REDUCTION("ReduceLogSum"),
    BERTH_REDUCTION("ReduceLogSumExp"), BERTH_REDUCTION("ReduceMax"),  BERTH_REDUCTION("ReduceMean"),
    BERTH_REDUCTION("ReduceMin"),       BERTH_REDUCTION("ReduceProd"), BERTH_REDUCTION("ReduceSum"),
    BERTH_REDUCTION("ReduceSumSquare"),
};

}  // namespace

const rows reduction_rows{reduction_table};

}  // namespace berth::op
