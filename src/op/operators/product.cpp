// Matrix products, summed in f64 or 64-bit integers.
#include <algorithm>
#include <array>

#include "op/operators/quantized.hpp"
#include "op/operators/rows.hpp"

namespace berth::op {

namespace {

// One matrix of a product: strides of its rows and columns.
struct matrix {
  std::int64_t row_by = 0, column_by = 0;
};

// sums(i, first column, count, values) for pieces of each row of A B.
template <class C, class Sums>
void multiply(load_function<C> load_a, const std::byte* a, matrix a_by, load_function<C> load_b, const std::byte* b,
              matrix b_by, std::int64_t m, std::int64_t k, std::int64_t n, Sums&& sums) {
  using A = std::conditional_t<std::is_floating_point_v<C>, double, C>;
  std::array<A, chunk> total;
  std::array<C, chunk> row;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t first = 0; first < n; first += chunk) {
      const std::int64_t count = std::min(chunk, n - first);
      std::fill_n(total.begin(), count, A{0});
      for (std::int64_t each = 0; each < k; ++each) {
        C x;
        load_a(a + i * a_by.row_by + each * a_by.column_by, 0, 1, &x);
        load_b(b + each * b_by.row_by + first * b_by.column_by, b_by.column_by, count, row.data());
        for (std::int64_t c = 0; c < count; ++c) {
          const auto at = static_cast<std::size_t>(c);
          total[at] = sum(total[at], times(static_cast<A>(x), static_cast<A>(row[at])));
        }
      }
      sums(i, first, count, total.data());
    }
  }
}

// A product over batches: the operands as matrices, and a nest over the batches.
struct batched {
  std::int64_t m = 1, k = 1, n = 1;
  matrix a, b, c;
  shape batches;
  strides a_batch, b_batch, c_batch;
};

batched batched_of(tensor_type a, tensor_type b, tensor_type c) {
  a.strides = strides_of(a);
  b.strides = strides_of(b);
  c.strides = strides_of(c);
  if (a.shape.size() == 1) {  // a row
    a.shape.insert(a.shape.begin(), 1);
    a.strides.insert(a.strides.begin(), 0);
    c.shape.insert(c.shape.end() - (b.shape.size() > 1 ? 1 : 0), 1);
    c.strides.insert(c.strides.end() - (b.shape.size() > 1 ? 1 : 0), 0);
  }
  if (b.shape.size() == 1) {  // a column
    b.shape.push_back(1);
    b.strides.push_back(0);
    c.shape.push_back(1);
    c.strides.push_back(0);
  }
  batched p;
  const auto last_two = [](const tensor_type& t) { return matrix{t.strides[t.strides.size() - 2], t.strides.back()}; };
  p.m = a.shape[a.shape.size() - 2];
  p.k = a.shape.back();
  p.n = b.shape.back();
  p.a = last_two(a);
  p.b = last_two(b);
  p.c = last_two(c);
  p.batches = {c.shape.begin(), c.shape.end() - 2};
  const auto outer = [&](const tensor_type& t) {
    tensor_type batch{{t.shape.begin(), t.shape.end() - 2}, t.type, 0, {t.strides.begin(), t.strides.end() - 2}};
    return broadcast_strides(batch, p.batches);
  };
  p.a_batch = outer(a);
  p.b_batch = outer(b);
  p.c_batch = outer(c);
  return p;
}

template <class C>
made product_as(const request& q, const types& outputs) {
  using A = std::conditional_t<std::is_floating_point_v<C>, double, C>;
  const batched p = batched_of(input(q, 0), input(q, 1), outputs[0]);
  const nest over{p.batches, {p.a_batch, p.b_batch, p.c_batch}};
  const auto run = [p, over, load = load_as<C>(input(q, 0).type), store = store_as<A>(outputs[0].type)](bases at,
                                                                                                        void*) {
    over.each(at, [&](const nest::point& here) {
      std::byte* to = here[2];
      multiply<C>(load, here[0], p.a, load, here[1], p.b, p.m, p.k, p.n,
                  [&](std::int64_t r, std::int64_t first, std::int64_t count, const A* total) {
                    store(total, to + r * p.c.row_by + first * p.c.column_by, p.c.column_by, count);
                  });
    });
  };
  return function(q, outputs, run);
}

types product_type(const request& q) {
  (void)require_number(q, 0);
  (void)input(q, 1);
  require_same_types(q);
  return {dense(input(q, 0).type, product(shape_of(q, 0), shape_of(q, 1)))};
}
made matmul(const request& q, const types& outputs) {
  return in_domain(domain_of(input(q, 0).type), [&]<class C>(C) { return product_as<C>(q, outputs); });
}

// Y = alpha A' B' + beta C.
tensor_type turned(tensor_type t, bool turn) {
  t.strides = strides_of(t);
  if (turn) {
    std::swap(t.shape[0], t.shape[1]);
    std::swap(t.strides[0], t.strides[1]);
  }
  return t;
}
struct gemm_operands {
  tensor_type a, b;
};
gemm_operands gemm_of(const request& q) {
  (void)require_number(q, 0);
  require_same_types(q);
  if (shape_of(q, 0).size() != 2 || shape_of(q, 1).size() != 2) refuse("inputs are not matrices");
  return {turned(input(q, 0), attribute_or<std::int64_t>(q, "transA", 0) != 0),
          turned(input(q, 1), attribute_or<std::int64_t>(q, "transB", 0) != 0)};
}
types gemm_type(const request& q) {
  const gemm_operands g = gemm_of(q);
  const shape to = product(g.a.shape, g.b.shape);
  if (has(q, 2) && broadcast(shape_of(q, 2), to) != to) refuse("input 2 does not broadcast to the result");
  return {dense(input(q, 0).type, to)};
}
template <class C>
made gemm_as(const request& q, const types& outputs) {
  using A = std::conditional_t<std::is_floating_point_v<C>, double, C>;
  const gemm_operands g = gemm_of(q);
  const batched p = batched_of(g.a, g.b, outputs[0]);
  const auto alpha = from_real<A>(attribute_or(q, "alpha", 1.0f)), beta = from_real<A>(attribute_or(q, "beta", 1.0f));
  const bool added = has(q, 2);
  const strides c_by = added ? broadcast_strides(input(q, 2), outputs[0].shape) : strides(2, 0);
  const auto run = [=, load = load_as<C>(input(q, 0).type), load_c = load_as<A>(input(q, 0).type),
                    store = store_as<A>(outputs[0].type)](bases at, void*) {
    std::byte* to = at[added ? 3 : 2];
    multiply<C>(load, at[0], p.a, load, at[1], p.b, p.m, p.k, p.n,
                [&](std::int64_t r, std::int64_t first, std::int64_t count, A* total) {
                  std::array<A, chunk> addend{};
                  if (added) load_c(at[2] + r * c_by[0] + first * c_by[1], c_by[1], count, addend.data());
                  for (std::int64_t i = 0; i < count; ++i) {
                    total[i] = sum(times(alpha, total[i]), times(beta, addend[static_cast<std::size_t>(i)]));
                  }
                  store(total, to + r * p.c.row_by + first * p.c.column_by, p.c.column_by, count);
                });
  };
  return function(q, outputs, run);
}
made gemm(const request& q, const types& outputs) {
  return in_domain(domain_of(input(q, 0).type), [&]<class C>(C) { return gemm_as<C>(q, outputs); });
}

// MatMulInteger (a, b, zero points of both) and QLinearMatMul (a, its scale and zero point, b likewise, y likewise).
types integer_product_type(const request& q) {
  require_bytes(q, 0);
  require_bytes(q, 1);
  return {dense(element::i32, product(shape_of(q, 0), shape_of(q, 1)))};
}
types quantized_product_type(const request& q) {
  require_bytes(q, 0);
  require_bytes(q, 3);
  require_bytes(q, 7);
  return {dense(input(q, 7).type, product(shape_of(q, 0), shape_of(q, 3)))};
}
made quantized_product(const request& q, const types& outputs, std::size_t a, std::size_t b, const rescaling& scale) {
  const batched p = batched_of(input(q, a), input(q, b), outputs[0]);
  const nest over{p.batches, {p.a_batch, p.b_batch, p.c_batch}};
  const std::size_t b_at = operand_of(q, b), to_at = operands_of(q).size();
  const auto run = [=, load_a = load_as<std::int64_t>(input(q, a).type),
                    load_b = load_as<std::int64_t>(input(q, b).type)](bases at, void*) {
    const std::array<std::byte*, 3> base{at[0], at[b_at], at[to_at]};
    over.each(base, [&](const nest::point& here) {
      const std::byte *x = here[0], *y = here[1];
      std::byte* to = here[2];
      // Zero points per row of a and per column of b are taken off each element.
      for (std::int64_t r = 0; r < p.m; ++r) {
        for (std::int64_t c = 0; c < p.n; ++c) {
          const std::int64_t a_zero = scale.a_zero(at, r), b_zero = scale.b_zero(at, c);
          std::int64_t total = 0;
          for (std::int64_t k = 0; k < p.k; ++k) {
            std::int64_t u = 0, v = 0;
            load_a(x + r * p.a.row_by + k * p.a.column_by, 0, 1, &u);
            load_b(y + k * p.b.row_by + c * p.b.column_by, 0, 1, &v);
            total += (u - a_zero) * (v - b_zero);
          }
          scale.write(at, total, c, to + r * p.c.row_by + c * p.c.column_by);
        }
      }
    });
  };
  return function(q, outputs, run);
}
several rows_and_columns(const request& q, std::size_t a, std::size_t b) {
  const shape &left = shape_of(q, a), &right = shape_of(q, b);
  return {left.size() < 2 ? 1 : left[left.size() - 2], right.size() < 2 ? 1 : right.back()};
}
made integer_product(const request& q, const types& outputs) {
  return quantized_product(q, outputs, 0, 1, integer_rescaling(q, 2, 3, element::i32, rows_and_columns(q, 0, 1)));
}
made linear_product(const request& q, const types& outputs) {
  return quantized_product(q, outputs, 0, 3, linear_rescaling(q, rows_and_columns(q, 0, 3)));
}

constexpr definition product_table[] = {
    {"Gemm", 3, 0, false, gemm_type, gemm, "128x256,256x64,64"},
    {"MatMul", 2, 0, false, product_type, matmul, "128x256,256x64"},
    {"MatMulInteger", 4, 0, false, integer_product_type, integer_product, "16x32,32x16"},
    {"QLinearMatMul", 8, 0, false, quantized_product_type, linear_product, "16x32,1,1,32x16,1,1,1,1"},
};

}  // namespace

const rows product_rows{product_table};

}  // namespace berth::op
