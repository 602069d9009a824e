// Operators behind berth/op.h. Part of the library of operators, which the core library does not know.
#include "berth/op.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "berth/op/device_operators.hpp"
#include "c/objects.hpp"
#include "c/op_run.hpp"

namespace berth::c {
namespace {

static_assert(static_cast<int>(element::f32) == BERTH_F32 && static_cast<int>(element::boolean) == BERTH_BOOL &&
              static_cast<int>(element::i64) == BERTH_I64 && static_cast<int>(element::other) == BERTH_BOOL + 1);

// Has a lock of its own: tensors get addresses while executors read them.
struct held_tensor {
  tensor_type type;
  mutable std::mutex lock;
  op::memory_range memory;

  [[nodiscard]] op::memory_range where() const {
    const std::lock_guard held{lock};
    return memory;
  }
};

struct held_executor {
  std::mutex lock;
  const std::string name;  // of the operator
  const device on;
  op::served served;
  std::vector<std::shared_ptr<held_tensor>> operands;  // of phase two, in order
  std::vector<op::memory_range> ranges;                // of the last run
  op::memory_range workspace;
  std::vector<std::shared_ptr<stream_clock>> streams;  // that it has run on; they may go before it

  held_executor(std::string of, device d) : name{std::move(of)}, on{std::move(d)} {}
  held_executor(const held_executor&) = delete;
  held_executor& operator=(const held_executor&) = delete;
  ~held_executor() {
    for (const auto& s : streams) (void)stream::synchronize(*s);
  }

  // Returns whether nothing runs. A stream that failed, or was the parent's before a fork, runs nothing any more.
  [[nodiscard]] bool idle() const {
    return std::all_of(streams.begin(), streams.end(), [](const auto& s) { return stream::query(*s).value_or(true); });
  }
  void remember(const std::shared_ptr<stream_clock>& clock) {
    if (std::find(streams.begin(), streams.end(), clock) != streams.end()) return;
    std::erase_if(streams, [](const auto& s) { return s->completed() == stream_clock::ended; });
    streams.push_back(clock);
  }
};

handles<held_tensor>& tensors() noexcept {
  static never_destroyed<handles<held_tensor>> all{7, "tensor"};
  return all.value;
}
handles<held_executor>& executors() noexcept {
  static never_destroyed<handles<held_executor>> all{8, "executor", this_process};
  return all.value;
}

op::attribute value_of(const berth_attribute& a) {
  const bool list = a.kind == BERTH_ATTRIBUTE_INTEGERS || a.kind == BERTH_ATTRIBUTE_FLOATS;
  if (list && a.count > op::most_extent) throw op::refusal{"attribute '" + std::string{a.name} + "' is too long"};
  const auto there = [&](const void* p) {
    if (p == nullptr && (!list || a.count != 0)) {
      throw op::refusal{"attribute '" + std::string{a.name} + "' is null"};
    }
  };
  switch (a.kind) {
    case BERTH_ATTRIBUTE_INTEGER: return a.integer;
    case BERTH_ATTRIBUTE_FLOAT: return static_cast<float>(a.number);
    case BERTH_ATTRIBUTE_TEXT: there(a.text); return std::string{a.text};
    case BERTH_ATTRIBUTE_INTEGERS:
      there(a.integers);
      return std::vector<std::int64_t>(a.integers, a.integers + a.count);
    case BERTH_ATTRIBUTE_FLOATS: there(a.numbers); return std::vector<float>(a.numbers, a.numbers + a.count);
  }
  throw op::refusal{"attribute '" + std::string{a.name} + "' is of no kind"};
}

// A request as the caller describes it. The parameters' values are held here, since phase one reads them.
struct described {
  op::request q;
  std::vector<std::shared_ptr<held_tensor>> inputs;
  std::vector<op::tensor> parameters;
};

// Fills `to`. Returns false if the host cannot read there, as at a device's address.
bool read_memory(const void* from, std::vector<std::byte>& to) {
  const iovec there{const_cast<void*>(from), to.size()}, here{to.data(), to.size()};
  if (to.empty() || process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(to.size())) return true;
  if (errno == EFAULT) return false;
  std::memcpy(to.data(), from, to.size());  // the system has no such call
  return true;
}

berth_status describe(const char* name, const berth_tensor* const* inputs, std::size_t input_count,
                      const berth_attribute* attributes, std::size_t attribute_count, std::size_t results,
                      described& d) {
  if (name == nullptr) return fail(BERTH_INVALID, "the operator's name: null");
  if (inputs == nullptr && input_count != 0) return fail(BERTH_INVALID, "inputs: null");
  if (attributes == nullptr && attribute_count != 0) return fail(BERTH_INVALID, "attributes: null");
  constexpr std::size_t most = 64;  // that a run can check
  if (input_count > most || results > most || attribute_count > most) {
    return fail(BERTH_INVALID, "more than 64 inputs, results or attributes");
  }
  d.q.op = name;
  d.q.opset = 17;
  d.q.outputs = results;
  d.inputs.resize(input_count);
  d.parameters.resize(input_count);
  for (std::size_t i = 0; i < input_count; ++i) {
    d.q.inputs.emplace_back();
    d.q.constants.push_back(nullptr);
    if (inputs[i] == nullptr) continue;
    d.inputs[i] = tensors().find(inputs[i]);
    if (d.inputs[i] == nullptr) return no_such(inputs[i], "input tensor");
    d.q.inputs[i] = d.inputs[i]->type;
  }
  // Structs of another version are as far apart as they are long.
  const auto* at = reinterpret_cast<const unsigned char*>(attributes);
  for (std::size_t i = 0; i < attribute_count; ++i) {
    berth_attribute a;
    const auto* each = reinterpret_cast<const berth_attribute*>(at);
    constexpr auto wrong = "attribute: null, or wrong struct_size";
    if (const auto status = read(each, sizeof(berth_attribute), a, wrong); status != BERTH_OK) return status;
    if (a.name == nullptr) return fail(BERTH_INVALID, "an attribute's name: null", i);
    d.q.attributes.insert_or_assign(a.name, value_of(a));
    at += each->struct_size;
  }
  const op::definition* row = op::find(d.q.op);
  for (std::size_t i = 0; row != nullptr && i < std::min<std::size_t>(input_count, 32); ++i) {
    if ((row->parameters >> i & 1u) == 0 || d.inputs[i] == nullptr) continue;
    const tensor_type& t = d.inputs[i]->type;
    const op::memory_range memory = d.inputs[i]->where();
    bytes size = element_size(t.type);
    for (const std::int64_t n : t.shape) size *= static_cast<bytes>(n);
    if (!t.strides.empty() || memory.size < size || (memory.address == nullptr && size != 0)) {
      return fail(BERTH_INVALID, "a parameter, which is read in phase one, has no data or is not row-major", i);
    }
    d.parameters[i] = {t.type, t.shape, std::vector<std::byte>(static_cast<std::size_t>(size))};
    if (!read_memory(memory.address, d.parameters[i].data)) {
      return fail(BERTH_INVALID, "a parameter, which is read in phase one, lies in memory that the host does not reach",
                  i);
    }
    d.q.constants[i] = &d.parameters[i];
  }
  return BERTH_OK;
}

// Checks the data that the tensors have already.
berth_status check_given(const held_executor& e) {
  for (std::size_t i = 0; e.served.run != nullptr && i < e.operands.size(); ++i) {
    const op::memory_range memory = e.operands[i]->where();
    if (memory.address == nullptr) continue;
    if (const auto ok = e.served.run->check_operand(i, memory); !ok) return report(ok.error());
  }
  return BERTH_OK;
}

bool same(const op::memory_range& a, const op::memory_range& b) {
  return a.address == b.address && a.size == b.size;
}

// Contract: the executor's lock is held.
berth_status run_locked(held_executor& e, const op::memory_range& work, held_stream& on, berth_stream* stream) {
  std::array<op::memory_range, 64> ranges;
  const std::size_t count = e.operands.size();
  for (std::size_t i = 0; i < count; ++i) ranges[i] = e.operands[i]->where();
  const bool as_before = !e.streams.empty() && work.address == e.workspace.address &&
                         std::equal(e.ranges.begin(), e.ranges.end(), ranges.begin(), same);
  if (!as_before && !e.idle()) {
    return fail(BERTH_INVALID, "op: a run with other addresses has not been waited for");
  }
  e.remember(on.queue.clock());
  const enqueuing here{stream};
  auto done = e.served.run->run_checked({ranges.data(), count}, work, on.queue);
  if (!done) return here.failed() ? fail(here.status(), here.text()) : report(done.error());
  std::copy_n(ranges.begin(), count, e.ranges.begin());
  e.workspace = work;
  return succeed();
}

// `name`: of the pair's operator; null: any.
berth_status run_of(const char* name, void* workspace, std::uint64_t workspace_size, berth_executor* executor,
                    berth_stream* stream) noexcept {
  return with(executors(), executor, [&](held_executor& held) {
    return with(streams(), stream, [&](held_stream& on) -> berth_status {
      if (name != nullptr && held.name != name) {
        return fail(BERTH_INVALID, (std::string{name} + ": the executor is of " + held.name).c_str());
      }
      const std::lock_guard locked{held.lock};
      if (held.served.run == nullptr) return succeed();  // all results are empty
      const device& there = on.queue.get_device();
      if (!(there == held.on) && !held.served.run->runs_on(there)) {
        return fail(BERTH_INVALID, (held.name + ": the executor is for " + held.on.properties().name +
                                    ", the stream of " + there.properties().name)
                                       .c_str());
      }
      return run_locked(held, {workspace, workspace_size}, on, stream);
    });
  });
}

}  // namespace
}  // namespace berth::c

using namespace berth::c;

extern "C" {

berth_status berth_tensor_create(int32_t type, const int64_t* shape, size_t rank, const int64_t* strides, void* data,
                                 uint64_t data_size, berth_tensor** out) {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_tensor** out: null");
  if (type < 0 || type > BERTH_BOOL) return fail(BERTH_INVALID, "tensor: no such element type");
  if (rank > berth::op::most_rank) return fail(BERTH_INVALID, "tensor: more than 32 dimensions", rank);
  if (shape == nullptr && rank != 0) return fail(BERTH_INVALID, "tensor: its shape is null");
  return refusable("tensor", [&] {
    auto made = std::make_shared<held_tensor>();
    made->type.type = static_cast<berth::element>(type);
    made->type.shape.assign(shape, shape + rank);
    if (strides != nullptr) made->type.strides.assign(strides, strides + rank);
    made->memory = {data, data_size};
    // Checks the bounds of every tensor now, so that its bytes can be counted from here on.
    (void)berth::op::infer({"Shape", 17, {made->type}});
    return give(tensors(), std::move(made), out);
  });
}

berth_status berth_tensor_set_data(berth_tensor* tensor, void* data, uint64_t data_size) {
  return with(tensors(), tensor, [&](held_tensor& held) {
    const std::lock_guard locked{held.lock};
    held.memory = {data, data_size};
    return succeed();
  });
}

void berth_tensor_destroy(berth_tensor* tensor) {
  (void)destroy(tensors(), tensor);
}

berth_status berth_op_infer(const char* name, const berth_tensor* const* inputs, size_t input_count,
                            const berth_attribute* attributes, size_t attribute_count, size_t results, size_t index,
                            int32_t* type, int64_t* shape, size_t room, size_t* rank) {
  if (type == nullptr || rank == nullptr || (shape == nullptr && room != 0)) {
    return fail(BERTH_INVALID, "type, shape or rank: null");
  }
  if (index >= results) return fail(BERTH_INVALID, "there is no such result", index);
  return refusable(name, [&]() -> berth_status {
    described d;
    const auto status = describe(name, inputs, input_count, attributes, attribute_count, results, d);
    if (status != BERTH_OK) return status;
    const auto types = berth::op::infer(d.q);
    *type = static_cast<int32_t>(types[index].type);
    *rank = types[index].shape.size();
    std::copy_n(types[index].shape.begin(), std::min(room, *rank), shape);
    return succeed();
  });
}

berth_status berth_op_workspace_size(const berth_device* device, const char* name, const berth_tensor* const* inputs,
                                     size_t input_count, const berth_attribute* attributes, size_t attribute_count,
                                     berth_tensor* const* results, size_t result_count, uint64_t* workspace_size,
                                     berth_executor** executor) {
  if (workspace_size == nullptr || executor == nullptr) return fail(BERTH_INVALID, "workspace_size or executor: null");
  if (results == nullptr) return fail(BERTH_INVALID, "results: null");
  const auto found = devices().find(device);
  if (device != nullptr && found == nullptr) return no_such(device, "device");
  return refusable(name, [&]() -> berth_status {
    const berth::device on = found == nullptr ? berth::device::host() : *found;
    described d;
    const auto status = describe(name, inputs, input_count, attributes, attribute_count, result_count, d);
    if (status != BERTH_OK) return status;
    auto made = std::make_shared<held_executor>(name, on);
    for (const std::size_t i : berth::op::operands_of(d.q)) made->operands.push_back(d.inputs[i]);
    std::vector<berth::tensor_type> types;
    for (std::size_t i = 0; i < result_count; ++i) {
      auto held = tensors().find(results[i]);
      if (held == nullptr) return no_such(results[i], "result tensor");
      types.push_back(held->type);
      made->operands.push_back(std::move(held));
    }
    made->served = berth::op::serve_on(on, d.q, std::move(types));
    if (made->operands.size() > 64) return fail(BERTH_INVALID, "more than 64 operands");
    if (const auto wrong = check_given(*made); wrong != BERTH_OK) return wrong;
    made->ranges.resize(made->operands.size());
    const std::uint64_t size = made->served.run == nullptr ? 0 : made->served.run->workspace();
    const berth_status given = give(executors(), std::move(made), executor);
    if (given == BERTH_OK) *workspace_size = size;
    return given;
  });
}

berth_status berth_executor_workspace_part(const berth_executor* executor, size_t index, const char** what,
                                           uint64_t* size) {
  if (what == nullptr || size == nullptr) return fail(BERTH_INVALID, "what or size: null");
  return with(executors(), executor, [&](const held_executor& held) {
    const auto* run = held.served.run.get();
    if (run == nullptr || index >= run->workspace_parts().size()) {
      return fail(BERTH_INVALID, "the workspace has no such part", index);
    }
    *what = run->workspace_parts()[index].what.c_str();
    *size = run->workspace_parts()[index].size;
    return succeed();
  });
}

void berth_executor_destroy(berth_executor* executor) {
  (void)destroy(executors(), executor);
}

berth_status berth_op_run(void* workspace, uint64_t workspace_size, berth_executor* executor, berth_stream* stream) {
  return run_of(nullptr, workspace, workspace_size, executor, stream);
}

#define BERTH_PAIR(function, name, parameters, ...)                                                                 \
  berth_status berth_##function##_workspace_size(                                                                   \
      const berth_device* device, BERTH_LIST parameters, const berth_attribute* attributes, size_t attribute_count, \
      berth_tensor* out, uint64_t* workspace_size, berth_executor** executor) {                                     \
    const berth_tensor* const in[] = {__VA_ARGS__};                                                                 \
    return berth_op_workspace_size(device, name, in, std::size(in), attributes, attribute_count, &out, 1,           \
                                   workspace_size, executor);                                                       \
  }                                                                                                                 \
  berth_status berth_##function(void* workspace, uint64_t workspace_size, berth_executor* executor,                 \
                                berth_stream* stream) {                                                             \
    return run_of(name, workspace, workspace_size, executor, stream);                                               \
  }
#define BERTH_LIST(...) __VA_ARGS__
#define BERTH_PAIR_OF_1(function, name) BERTH_PAIR(function, name, (const berth_tensor* x), x)
#define BERTH_PAIR_OF_2(function, name) BERTH_PAIR(function, name, (const berth_tensor* a, const berth_tensor* b), a, b)
#define BERTH_PAIR_OF_3(function, name) \
  BERTH_PAIR(function, name, (const berth_tensor* a, const berth_tensor* b, const berth_tensor* c), a, b, c)

BERTH_OPERATORS_OF_1(BERTH_PAIR_OF_1)
BERTH_OPERATORS_OF_2(BERTH_PAIR_OF_2)
BERTH_OPERATORS_OF_3(BERTH_PAIR_OF_3)

}  // extern "C"
