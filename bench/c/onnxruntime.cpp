// Runs models under ONNX Runtime, each with its own arena and then all on one pool of Berth's. Compares outputs, peaks,
// device calls and time. Usage: bench_onnxruntime LIBONNXRUNTIME.so MODEL.onnx ... The build needs onnxruntime_c_api.h
// (-DBERTH_ONNXRUNTIME_INCLUDE=DIR); the library is opened at run time.
#include "berth/onnxruntime.h"

#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

const OrtApi* api = nullptr;

void must(OrtStatus* status) {
  if (status == nullptr) return;
  std::printf("ONNX Runtime: %s\n", api->GetErrorMessage(status));
  std::exit(1);
}

struct input {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> data;
};

struct model {
  OrtSession* session = nullptr;
  std::vector<input> inputs;
  std::vector<std::string> outputs;
};

// Makes inputs of floats; open dimensions become 1 x 3 x 48 x 192.
input read_input(const OrtSession* session, std::size_t i, OrtAllocator* names) {
  constexpr std::int64_t open_dimensions[] = {1, 3, 48, 192};
  char* name = nullptr;
  OrtTypeInfo* type = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  std::size_t rank = 0;
  must(api->SessionGetInputName(session, i, names, &name));
  must(api->SessionGetInputTypeInfo(session, i, &type));
  must(api->CastTypeInfoToTensorInfo(type, &tensor));
  must(api->GetDimensionsCount(tensor, &rank));
  input in{.name = name, .shape = std::vector<std::int64_t>(rank), .data = {}};
  must(api->GetDimensions(tensor, in.shape.data(), rank));
  std::size_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (in.shape[d] <= 0) in.shape[d] = open_dimensions[std::min<std::size_t>(d, 3)];
    elements *= static_cast<std::size_t>(in.shape[d]);
  }
  std::uint32_t seed = 1;
  for (std::size_t e = 0; e < elements; ++e) {
    seed = seed * 1664525u + 1013904223u;
    in.data.push_back(static_cast<float>(seed >> 8) / 0x1p24f);
  }
  api->ReleaseTypeInfo(type);
  (void)api->AllocatorFree(names, name);
  return in;
}

model open_model(const OrtEnv* env, const char* path, bool shared) {
  OrtSessionOptions* options = nullptr;
  OrtAllocator* names = nullptr;
  model m;
  must(api->CreateSessionOptions(&options));
  must(api->SetIntraOpNumThreads(options, 1));
  if (shared) must(api->AddSessionConfigEntry(options, "session.use_env_allocators", "1"));
  must(api->CreateSession(env, path, options, &m.session));
  api->ReleaseSessionOptions(options);
  must(api->GetAllocatorWithDefaultOptions(&names));
  std::size_t n = 0;
  must(api->SessionGetInputCount(m.session, &n));
  for (std::size_t i = 0; i < n; ++i) m.inputs.push_back(read_input(m.session, i, names));
  must(api->SessionGetOutputCount(m.session, &n));
  for (std::size_t i = 0; i < n; ++i) {
    char* name = nullptr;
    must(api->SessionGetOutputName(m.session, i, names, &name));
    m.outputs.emplace_back(name);
    (void)api->AllocatorFree(names, name);
  }
  return m;
}

// Returns all outputs, one after the other.
std::vector<float> run(model& m, const OrtMemoryInfo* cpu) {
  std::vector<const char*> inputs, outputs;
  std::vector<OrtValue*> given, got(m.outputs.size());
  for (input& i : m.inputs) {
    inputs.push_back(i.name.c_str());
    OrtValue* value = nullptr;
    must(api->CreateTensorWithDataAsOrtValue(cpu, i.data.data(), i.data.size() * sizeof(float), i.shape.data(),
                                             i.shape.size(), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    given.push_back(value);
  }
  for (const std::string& o : m.outputs) outputs.push_back(o.c_str());
  must(api->Run(m.session, nullptr, inputs.data(), given.data(), given.size(), outputs.data(), outputs.size(),
                got.data()));
  std::vector<float> all;
  for (OrtValue* value : got) {
    OrtTensorTypeAndShapeInfo* shape = nullptr;
    std::size_t n = 0;
    void* data = nullptr;
    must(api->GetTensorTypeAndShape(value, &shape));
    must(api->GetTensorShapeElementCount(shape, &n));
    must(api->GetTensorMutableData(value, &data));
    all.insert(all.end(), static_cast<float*>(data), static_cast<float*>(data) + n);
    api->ReleaseTensorTypeAndShapeInfo(shape);
    api->ReleaseValue(value);
  }
  for (OrtValue* value : given) api->ReleaseValue(value);
  return all;
}

double median_ms(model& m, const OrtMemoryInfo* cpu) {
  std::vector<double> times;
  for (int i = 0; i < 31; ++i) {
    const auto before = std::chrono::steady_clock::now();
    (void)run(m, cpu);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void print_own_arena(const model& m, const char* path) {
  OrtMemoryInfo* arena = nullptr;
  OrtAllocator* allocator = nullptr;
  OrtKeyValuePairs* pairs = nullptr;
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t n = 0;
  must(api->CreateMemoryInfo("Cpu", OrtArenaAllocator, 0, OrtMemTypeDefault, &arena));
  must(api->CreateAllocator(m.session, arena, &allocator));
  must(api->AllocatorGetStats(allocator, &pairs));
  api->GetKeyValuePairs(pairs, &keys, &values, &n);
  std::printf("own arena of %s:", path);
  for (std::size_t i = 0; i < n; ++i) {
    const bool of_interest = std::strcmp(keys[i], "MaxInUse") == 0 || std::strcmp(keys[i], "TotalAllocated") == 0;
    if (of_interest) std::printf(" %s %s", keys[i], values[i]);
  }
  std::puts("");
  api->ReleaseKeyValuePairs(pairs);
  api->ReleaseAllocator(allocator);
  api->ReleaseMemoryInfo(arena);
}

void print_pool(const berth_pool* pool, const char* when) {
  berth_pool_statistics s = BERTH_INIT(berth_pool_statistics);
  (void)berth_pool_statistics_of(pool, &s);
  std::printf("%-22s peak %llu, reserved %llu, allocations %llu, calls of the device %llu\n", when,
              static_cast<unsigned long long>(s.live_peak), static_cast<unsigned long long>(s.reserved_peak),
              static_cast<unsigned long long>(s.allocations), static_cast<unsigned long long>(s.device_hits));
}

bool at_the_same_time(std::vector<model>& models, const std::vector<std::vector<float>>& expected,
                      const OrtMemoryInfo* cpu) {
  std::vector<char> same(models.size(), 1);
  std::vector<std::thread> sessions;
  for (std::size_t i = 0; i < models.size(); ++i) {
    sessions.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) same[i] = same[i] != 0 && run(models[i], cpu) == expected[i] ? 1 : 0;
    });
  }
  for (std::thread& s : sessions) s.join();
  return std::count(same.begin(), same.end(), 0) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  void* const library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  void* const entry = library != nullptr ? dlsym(library, "OrtGetApiBase") : nullptr;
  if (entry == nullptr) {
    std::puts(argc > 2 ? dlerror() : "usage: bench_onnxruntime LIBONNXRUNTIME.so MODEL.onnx ...");
    return 2;
  }
  const OrtApiBase* const base = reinterpret_cast<const OrtApiBase* (*)()>(entry)();
  api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) return 2;
  std::printf("ONNX Runtime %s by its interface %d, a thread a session\n", base->GetVersionString(), ORT_API_VERSION);
  OrtEnv* env = nullptr;
  OrtMemoryInfo* cpu = nullptr;
  must(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bench", &env));
  must(api->CreateMemoryInfo("Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault, &cpu));
  std::vector<model> own, ours;
  std::vector<std::vector<float>> expected;
  for (int i = 2; i < argc; ++i) {
    own.push_back(open_model(env, argv[i], false));
    expected.push_back(run(own.back(), cpu));
    for (int k = 0; k < 3; ++k) (void)run(own.back(), cpu);
    print_own_arena(own.back(), argv[i]);
  }
  berth_device* device = nullptr;
  berth_stream* stream = nullptr;
  berth_pool* pool = nullptr;
  OrtAllocator* allocator = nullptr;
  berth_onnxruntime_options options = BERTH_INIT(berth_onnxruntime_options);
  options.api_version = ORT_API_VERSION;
  options.info = cpu;
  options.create_pairs = api->CreateKeyValuePairs;
  options.add_pair = api->AddKeyValuePair;
  if (berth_device_open("host", &device) != BERTH_OK || berth_stream_create(device, &stream) != BERTH_OK ||
      berth_pool_create(device, nullptr, &pool) != BERTH_OK ||
      berth_onnxruntime_create(pool, stream, &options, &allocator) != BERTH_OK) {
    std::puts(berth_error_text());
    return 1;
  }
  must(api->RegisterAllocator(env, allocator));
  for (int i = 2; i < argc; ++i) ours.push_back(open_model(env, argv[i], true));
  bool same = true;
  for (int k = 0; k < 24; ++k) {
    for (std::size_t i = 0; i < ours.size(); ++i) same = run(ours[i], cpu) == expected[i] && same;
    if (k == 0) print_pool(pool, "one pool, first runs:");
  }
  print_pool(pool, "after 24 runs each:");
  same = at_the_same_time(ours, expected, cpu) && same;
  print_pool(pool, "at the same time:");
  std::printf("outputs %s\n", same ? "the same bit for bit" : "DIFFER");
  for (int turn = 0; turn < 3; ++turn) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const double theirs = median_ms(own[i], cpu);
      std::printf("%s: own arena %.3f ms, Berth %.3f ms\n", argv[i + 2], theirs, median_ms(ours[i], cpu));
    }
  }
  for (const model& m : own) api->ReleaseSession(m.session);
  for (const model& m : ours) api->ReleaseSession(m.session);
  must(api->UnregisterAllocator(env, cpu));
  api->ReleaseEnv(env);
  std::uint64_t alive = 0;
  (void)berth_onnxruntime_destroy(allocator, &alive);
  std::printf("blocks alive at the end: %llu\n", static_cast<unsigned long long>(alive));
  return same ? 0 : 1;
}
