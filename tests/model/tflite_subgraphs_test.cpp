// Plans for models of several subgraphs. The tests run them as TFLM's kernels of IF, WHILE and CALL_ONCE do. Every
// tensor marks its bytes when it is written, and has its marks still when it is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "berth/model/input_error.hpp"
#include "berth/model/tflite_plan.hpp"
#include "model/files/readers.hpp"
#include "model/tflite_maker.hpp"
#include "model/tflite_metadata.hpp"
#include "model/tflite_planned.hpp"

namespace {
using berth::model::input_error;
using berth::model::micro_plan;
using berth::model::plan_for_micro;
using berth::model_test::complaint;
using berth::model_test::graph;
using berth::model_test::model;
using berth::model_test::offline_plan_of;
using berth::model_test::planned;
using testing::HasSubstr;

constexpr std::uint64_t if_code = 118, while_code = 119, call_once = 129, any = 0;

const graph& graph_of(const model& m, std::size_t s) {
  return s == 0 ? m : m.more[s - 1];
}

// Tensors of f32 with one dimension, all of them in the head.
class machine {
 public:
  machine(const model& m, std::vector<std::int32_t> offsets) : m_{m}, offsets_{std::move(offsets)} {
    for (std::size_t s = 0, n = 0; s <= m.more.size(); n += graph_of(m, s++).tensors.size()) first_.push_back(n);
  }

  void run() {
    for (const std::int64_t t : m_.inputs) write(0, t);
    invoke(0);
    for (const std::int64_t t : m_.outputs) read(0, t);
  }

 private:
  [[nodiscard]] std::size_t size(std::size_t s, std::int64_t t) const {
    return 4 * static_cast<std::size_t>(graph_of(m_, s).tensors[static_cast<std::size_t>(t)].shape[0]);
  }
  [[nodiscard]] std::size_t number(std::size_t s, std::int64_t t) const {
    return first_[s] + static_cast<std::size_t>(t);
  }
  void write(std::size_t s, std::int64_t t) {
    const auto at = offsets_[number(s, t)];
    ASSERT_GE(at, 0) << s << ' ' << t;
    const std::size_t end = static_cast<std::size_t>(at) + size(s, t);
    if (marks_.size() < end) marks_.resize(end, SIZE_MAX);
    std::fill(marks_.begin() + at, marks_.begin() + static_cast<std::ptrdiff_t>(end), number(s, t));
  }
  void read(std::size_t s, std::int64_t t) {
    const auto at = static_cast<std::size_t>(offsets_[number(s, t)]);
    for (std::size_t i = 0; i < size(s, t); ++i) {
      ASSERT_EQ(marks_[at + i], number(s, t)) << "tensor " << t << " of subgraph " << s << " is not whole";
    }
  }
  // As the kernels: one tensor after the other.
  void copy(std::size_t from, std::vector<std::int64_t> of, std::size_t to, const std::vector<std::int64_t>& into) {
    ASSERT_EQ(of.size(), into.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      read(from, of[i]);
      write(to, into[i]);
    }
  }
  void invoke(std::size_t s) {
    const graph& g = graph_of(m_, s);
    for (std::size_t op = 0; op < g.operators.size(); ++op) {
      const auto& [in, out] = g.operators[op];
      if (!g.calls.contains(op)) {
        for (const std::int64_t t : in) read(s, t);
        for (const std::int64_t t : out) write(s, t);
        continue;
      }
      const auto a = static_cast<std::size_t>(g.calls.at(op).first),
                 b = static_cast<std::size_t>(g.calls.at(op).second);
      if (g.codes[op] == call_once) invoke(a);
      if (g.codes[op] == if_code) {
        read(s, in[0]);
        const std::size_t branch = ++ifs_ % 2 == 0 ? b : a;
        copy(s, {in.begin() + 1, in.end()}, branch, graph_of(m_, branch).inputs);
        invoke(branch);
        copy(branch, graph_of(m_, branch).outputs, s, out);
      }
      if (g.codes[op] != while_code) continue;
      copy(s, in, a, graph_of(m_, a).inputs);
      copy(s, in, s, out);
      invoke(a);
      for (int turn = 0; turn < 2; ++turn) {
        read(a, graph_of(m_, a).outputs[0]);
        copy(s, out, b, graph_of(m_, b).inputs);
        invoke(b);
        copy(b, graph_of(m_, b).outputs, s, out);
        copy(s, out, a, graph_of(m_, a).inputs);
        invoke(a);
      }
    }
  }

  const model& m_;
  std::vector<std::int32_t> offsets_;
  std::vector<std::size_t> first_, marks_;
  int ifs_ = 0;
};

// A chain of n operators over tensors of other sizes, each of which may read an earlier tensor too. Its inputs and
// outputs have `state` floats; those after the first input pass through.
graph chain(std::mt19937& random, std::int64_t n, std::int64_t state, std::size_t inputs) {
  graph g;
  for (std::size_t i = 0; i < inputs; ++i) {
    g.tensors.push_back({"in", {state}});
    g.inputs.push_back(static_cast<std::int64_t>(i));
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto made = static_cast<std::int64_t>(g.tensors.size());
    g.tensors.push_back({"t", {i + 1 == n ? state : static_cast<std::int64_t>(1 + random() % 200)}});
    std::vector<std::int64_t> reads = {made - 1};
    if (random() % 2 == 0) reads.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(made)));
    g.operators.push_back({reads, {made}});
    g.codes.push_back(any);
  }
  g.outputs = {static_cast<std::int64_t>(g.tensors.size()) - 1};
  for (std::size_t i = 1; i < inputs; ++i) g.outputs.push_back(static_cast<std::int64_t>(i));
  return g;
}

// x -> chain -> WHILE over subgraphs 1 and 2 -> IF with 3 and 4 -> y. The body (2) calls 5 by an IF of its own, twice.
model several(std::mt19937& random) {
  constexpr std::int64_t state = 32;
  model m;
  static_cast<graph&>(m) = chain(random, 6, state, 1);
  const auto add = [&m](std::vector<std::int64_t> reads, std::uint64_t code, graph::call call) {
    const auto made = static_cast<std::int64_t>(m.tensors.size());
    m.tensors.push_back({"made", {state}});
    m.calls[m.operators.size()] = call;
    m.operators.push_back({std::move(reads), {made}});
    m.codes.push_back(code);
    m.outputs = {made};
  };
  const auto last = static_cast<std::int64_t>(m.tensors.size()) - 1;
  add({last, 0}, while_code, {1, 2});
  m.operators.back().second.push_back(last + 2);  // which nobody reads, but the WHILE itself
  m.tensors.push_back({"unread", {state}});
  add({1, last + 1}, if_code, {3, 4});
  m.more.push_back(chain(random, 3, state, 2));
  m.more.push_back(chain(random, 5, state, 2));
  graph& body = m.more.back();
  const auto in_body = static_cast<std::int64_t>(body.tensors.size());
  body.tensors.push_back({"branch", {state}});
  body.calls[body.operators.size()] = {5, 5};
  body.operators.push_back({{0, in_body - 1}, {in_body}});
  body.codes.push_back(if_code);
  body.outputs = {in_body, 1};
  for (int i = 0; i < 3; ++i) m.more.push_back(chain(random, 1 + static_cast<std::int64_t>(random() % 6), state, 1));
  return m;
}

TEST(tflite_subgraphs, a_run_of_what_was_written_finds_every_tensor_whole) {
  std::mt19937 random{5};
  int better = 0, together = 0;
  for (int round = 0; round < 40; ++round) {
    const model m = several(random);
    const micro_plan p = planned(m);
    ASSERT_FALSE(p.model.empty());
    EXPECT_LE(p.lower_bound, p.head);
    EXPECT_LE(p.head, p.own_head);
    better += p.head < p.own_head ? 1 : 0;
    const auto words = offline_plan_of(p.model);
    std::size_t tensors = 0;
    berth::bytes alone = 0;
    for (std::size_t s = 0; s <= m.more.size(); ++s) {
      tensors += graph_of(m, s).tensors.size();
      for (const auto& t : graph_of(m, s).tensors) alone += 4 * static_cast<berth::bytes>(t.shape[0]);
    }
    ASSERT_EQ(words.size(), 3 + tensors);
    EXPECT_EQ(words[1], static_cast<std::int32_t>(1 + m.more.size()));
    EXPECT_EQ(words[2], static_cast<std::int32_t>(tensors));
    EXPECT_EQ(std::vector<std::int32_t>(words.begin() + 3, words.end()), p.offsets);
    together += p.head < alone ? 1 : 0;
    for (int turn = 0; turn < 2; ++turn) machine{m, p.offsets}.run();
    if (HasFatalFailure()) return;
    EXPECT_EQ(plan_for_micro("again", p.model, {}, {}).offsets, p.offsets);
  }
  EXPECT_GT(better, 0);
  EXPECT_EQ(together, 40);
}

TEST(tflite_subgraphs, tensors_of_one_empty_buffer_have_places_of_their_own) {
  std::mt19937 random{6};
  model m = several(random);
  for (auto& t : m.tensors) t.buffer = 0;
  const micro_plan p = planned(m);
  machine{m, p.offsets}.run();
}

// MicroAllocator::AllocateVariables looks up variable t of a later subgraph among the first one's offsets.
TEST(tflite_subgraphs, a_variable_of_a_later_subgraph_gets_its_memory_from_tflm) {
  std::mt19937 random{7};
  model m = several(random);
  graph& body = m.more[1];
  body.tensors.insert(body.tensors.begin() + 1, {"state", {100}, 0, 0, true});
  for (auto& [in, out] : body.operators) {
    for (auto* list : {&in, &out}) {
      for (auto& t : *list) t += t >= 1 ? 1 : 0;
    }
  }
  for (auto* list : {&body.inputs, &body.outputs}) {
    for (auto& t : *list) t += t >= 1 ? 1 : 0;
  }
  body.operators[0].first.push_back(1);
  const micro_plan p = planned(m);
  EXPECT_EQ(p.offsets[1], -1);
  EXPECT_GE(p.offsets[0], 0);
  EXPECT_GE(p.offsets[2], 0);
  EXPECT_EQ(p.variables, 400u);
  EXPECT_LE(p.head, p.own_head);
}

TEST(tflite_subgraphs, scratch_is_that_of_a_subgraph) {
  std::mt19937 random{8};
  const model m = several(random);
  const micro_plan p = planned(m, {{.operation = 1, .size = 5000, .subgraph = 2}, {.operation = 0, .size = 48}});
  ASSERT_EQ(p.scratch.size(), 2u);
  EXPECT_EQ(p.scratch[0].subgraph, 0u);
  EXPECT_EQ(p.scratch[1].subgraph, 2u);
  EXPECT_GE(p.head, 5008u);
  machine{m, p.offsets}.run();
  // The scratch of a WHILE is alive with all that it calls.
  const auto with = [&](berth::bytes size) { return planned(m, {{.operation = 6, .size = size}}).lower_bound; };
  EXPECT_GE(with(1 << 20), (1u << 20) + 32 * 4u);
  EXPECT_THAT(complaint(m, {{.operation = 0, .size = 1, .subgraph = 6}}), HasSubstr("and there are 6 subgraphs"));
  EXPECT_THAT(complaint(m, {{.operation = 99, .size = 1, .subgraph = 1}}), HasSubstr("of operator 99 of subgraph 1"));
}

TEST(tflite_subgraphs, once_called_is_planned_and_what_none_calls_is_left_to_tflm) {
  std::mt19937 random{9};
  model m = several(random);
  m.more.push_back(chain(random, 4, 32, 1));
  m.more.back().inputs.clear();
  m.more.back().operators[0].first.clear();
  m.more.back().operators[1].first = {1};
  m.more.back().operators[2].first = {2};
  m.more.back().operators[3].first = {3};
  m.more.back().outputs.clear();
  micro_plan p = planned(m);
  const std::size_t last = p.offsets.size() - 5;
  EXPECT_EQ(std::vector<std::int32_t>(p.offsets.begin() + static_cast<std::ptrdiff_t>(last), p.offsets.end()),
            std::vector<std::int32_t>(5, -1));
  m.more.back().codes[2] = 106;  // ADD_N asks for scratch
  EXPECT_THAT(complaint(m), HasSubstr("no operator calls its subgraph"));
  m.more.back().codes[2] = any;
  m.calls[m.operators.size()] = {6};
  m.operators.push_back({{}, {}});
  m.codes.push_back(call_once);
  p = planned(m);
  EXPECT_GE(p.offsets[last + 1], 0);
  machine{m, p.offsets}.run();
}

TEST(tflite_subgraphs, sizes_are_as_tflm_counts_them) {
  model m;
  m.tensors[2] = {"h", {}, 0};         // without a shape: one element
  m.tensors[3] = {"handle", {3}, 13};  // of resources: four bytes each
  const micro_plan p = planned(m);
  EXPECT_EQ(p.head, 32u);
  m.tensors[3].type = 17;  // of four bits: a byte each
  m.tensors[3].shape = {33};
  EXPECT_EQ(planned(m).head, 64u);
  m.tensors[2].shape = {0, 5};  // takes no place
  EXPECT_EQ(planned(m).offsets[2], -1);
}

TEST(tflite_subgraphs, calls_that_tflm_could_not_follow_are_refused) {
  std::mt19937 random{10};
  const model good = several(random);
  model m = good;
  m.calls.begin()->second.first = 6;
  EXPECT_THAT(complaint(m), HasSubstr("operator 6 (WHILE) calls subgraph 6, and there are 6"));
  m.calls.begin()->second.first = -1;
  EXPECT_THAT(complaint(m), HasSubstr("calls subgraph -1"));
  m = good;
  for (const std::int64_t again : {2, 0}) {
    m = good;
    m.more[1].calls[m.more[1].operators.size()] = {again};
    m.more[1].operators.push_back({{}, {}});
    m.more[1].codes.push_back(call_once);
    EXPECT_THAT(complaint(m), HasSubstr("subgraph " + std::to_string(again) + " calls itself"));
  }
  m = good;
  m.calls.begin()->second.options = 92;
  EXPECT_THAT(complaint(m), HasSubstr("has no options that say which subgraph it calls"));
  m = good;
  m.calls.begin()->second.old_code = true;
  EXPECT_THAT(complaint(m), HasSubstr("in the old field only"));
  m = good;
  m.more[1].inputs.push_back(1);
  EXPECT_THAT(complaint(m), HasSubstr("hands over 2 tensors where 3 are taken"));
  m = good;
  m.more[1].tensors[0].shape = {31};
  EXPECT_THAT(complaint(m), HasSubstr("which is smaller"));
  m = good;
  m.more[0].outputs.clear();
  EXPECT_THAT(complaint(m), HasSubstr("a condition without a result"));
  m = good;
  m.operators[7].first.clear();
  EXPECT_THAT(complaint(m), HasSubstr("has no condition"));
  m = good;
  m.more[2].operators[0].first = {99};
  EXPECT_THAT(complaint(m), HasSubstr("there is no tensor 99 of subgraph 3"));
}

// Reading a file has a limit, which counts each part once however often it is called.
TEST(tflite_subgraphs, one_body_is_called_a_thousand_times) {
  model m;
  static_cast<graph&>(m) = {};
  graph same;
  for (std::int64_t i = 0; i < 8; ++i) {
    m.tensors.push_back({"x", {1, 1, 1, 1, 1, 1, 1, 16}});
    m.inputs.push_back(i);
    same.tensors.push_back(m.tensors.back());
    same.inputs.push_back(i);
  }
  same.outputs = same.inputs;
  m.more = {same, same};
  for (std::int64_t i = 0; i < 1000; ++i) {
    m.calls[m.operators.size()] = {1, 2};
    m.operators.push_back({m.inputs, m.inputs});
    m.codes.push_back(while_code);
  }
  m.outputs = m.inputs;
  EXPECT_EQ(planned(m).head, 3 * 8 * 64u);
}

// Each subgraph calls the next one twice: 2^n runs of the last.
TEST(tflite_subgraphs, calls_without_an_end_are_refused_at_once) {
  for (const std::size_t deep : {30u, 100u}) {
    model m;
    static_cast<graph&>(m) = {};
    for (std::size_t s = 0; s < deep; ++s) {
      graph g;
      if (s + 1 < deep) {
        for (int i = 0; i < (deep == 30 ? 2 : 1); ++i) {
          g.calls[g.operators.size()] = {static_cast<std::int64_t>(s) + 1};
          g.operators.push_back({{}, {}});
          g.codes.push_back(call_once);
        }
      }
      if (s == 0) {
        static_cast<graph&>(m) = g;
      } else {
        m.more.push_back(g);
      }
    }
    EXPECT_THAT(complaint(m), HasSubstr(deep == 30 ? "more than a million times" : "64 deep"));
  }
}

TEST(tflite_subgraphs, calls_that_hand_over_much_each_time_are_refused) {
  model m;
  static_cast<graph&>(m) = {};
  for (std::size_t s = 0; s <= 18; ++s) {
    graph g;
    for (int i = 0; s < 18 && i < 2; ++i) {
      g.calls[g.operators.size()] = {static_cast<std::int64_t>(s) + 1};
      g.operators.push_back({{}, {}});
      g.codes.push_back(call_once);
    }
    if (s == 18) {
      for (std::int64_t t = 0; t < 1000; ++t) {
        g.tensors.push_back({"t" + std::to_string(t), {1}});
        g.inputs.push_back(t);
      }
    }
    s == 0 ? static_cast<void>(static_cast<graph&>(m) = g) : m.more.push_back(g);
  }
  EXPECT_THAT(complaint(m), HasSubstr("take more than 2^27 tensors"));
}

TEST(tflite_subgraphs, a_count_of_subgraphs_that_lies_is_refused) {
  std::mt19937 random{11};
  const model m = several(random);
  const std::string whole = m.bytes();
  // The list of subgraphs: its length stands where the root's field 2 points to.
  const auto word = [](const std::string& text, std::size_t at) {
    std::uint32_t n = 0;
    for (std::size_t i = 4; i-- != 0;) n = n << 8 | static_cast<unsigned char>(text[at + i]);
    return n;
  };
  const std::size_t root = word(whole, 0);
  const std::size_t field = root + 4 + 4 + 4;  // version, operator codes, subgraphs
  const std::size_t list = field + word(whole, field);
  ASSERT_EQ(word(whole, list), 6u);
  for (const std::uint32_t count : {7u, 8u, 1000u, 0x20000000u, 0x7fffffffu, 0xffffffffu}) {
    std::string text = whole;
    for (std::size_t i = 0; i < 4; ++i) text[list + i] = static_cast<char>(count >> (8 * i));
    try {
      (void)plan_for_micro("m", text, {}, {.work = berth::plan::effort::fast});
      ADD_FAILURE() << count;
    } catch (const input_error&) {
    }
  }
  std::string fewer = whole;
  fewer[list] = 5;  // then the body's IF calls one that is not there
  EXPECT_THROW((void)plan_for_micro("m", fewer, {}, {}), input_error);
}

TEST(tflite_subgraphs, a_plan_of_the_first_alone_says_so) {
  std::mt19937 random{12};
  const auto file = berth::model::read_tflite("m", several(random).bytes());
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_THAT(file.notes[0], HasSubstr("the first of 6 subgraphs"));
  EXPECT_TRUE(berth::model::read_tflite("m", model{}.bytes()).notes.empty());
}

TEST(tflite_subgraphs, broken_files_are_refused_or_planned_but_never_followed_outside) {
  std::mt19937 random{13};
  const std::string whole = several(random).bytes();
  for (std::size_t i = 0; i < 3'000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 2; ++k) {
      text[8 + random() % (text.size() - 8)] = static_cast<char>(random() % 3 == 0 ? 255 : random() % 8);
    }
    try {
      (void)plan_for_micro("m", text, {}, {.work = berth::plan::effort::fast, .node_limit = 1000});
    } catch (const input_error&) {
    }
  }
}

TEST(tflite_header, says_what_the_arena_takes_and_what_it_leaves_out) {
  const micro_plan p = planned(model{});
  const std::string text = berth::model::micro_header(p, "my-model");
  EXPECT_THAT(text, HasSubstr("#define MY_MODEL_HEAD_BYTES 80ull\n"));
  EXPECT_THAT(text, HasSubstr("#define MY_MODEL_ARENA_ALIGNMENT 16ull\n"));
  EXPECT_THAT(text, HasSubstr("#define MY_MODEL_VARIABLE_BYTES 64ull\n"));
  EXPECT_THAT(text, HasSubstr("#define MY_MODEL_ARENA_BYTES(rest)"));
  EXPECT_THAT(text, testing::Not(HasSubstr("BERTH_")));
}
}  // namespace
