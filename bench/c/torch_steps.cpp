#include "torch_steps.hpp"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace torch_steps {
namespace {
namespace nn = torch::nn;

// A small residual network: convolutions with batch normalisation, two of them around a shortcut, three stages.
struct residual : nn::Module {
  residual(int in, int out, int stride)
      : first{register_module("first",
                              nn::Conv2d{nn::Conv2dOptions{in, out, 3}.stride(stride).padding(1).bias(false)})},
        second{register_module("second", nn::Conv2d{nn::Conv2dOptions{out, out, 3}.padding(1).bias(false)})},
        shortcut{register_module("shortcut", nn::Conv2d{nn::Conv2dOptions{in, out, 1}.stride(stride).bias(false)})},
        norm1{register_module("norm1", nn::BatchNorm2d{out})},
        norm2{register_module("norm2", nn::BatchNorm2d{out})} {}
  torch::Tensor forward(const torch::Tensor& x) {
    const auto h = torch::relu(norm1(first(x)));
    return torch::relu(norm2(second(h)) + shortcut(x));
  }
  nn::Conv2d first, second, shortcut;
  nn::BatchNorm2d norm1, norm2;
};

struct convolutional : nn::Module {
  convolutional() {
    int in = 3;
    for (const int out : {16, 32, 64}) {
      stages.push_back(register_module("stage" + std::to_string(out), std::make_shared<residual>(in, out, 2)));
      in = out;
    }
    last = register_module("last", nn::Linear{in, 10});
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& stage : stages) x = stage->forward(x);
    return last(x.mean({2, 3}));
  }
  std::vector<std::shared_ptr<residual>> stages;
  nn::Linear last{nullptr};
};

// A word model that predicts the next word: two layers of an encoder.
struct words : nn::Module {
  static constexpr int vocabulary = 500;
  static constexpr int width = 64;
  words()
      : embedding{register_module("embedding", nn::Embedding{vocabulary, width})},
        encoder{register_module(
            "encoder", nn::TransformerEncoder{nn::TransformerEncoderOptions{
                           nn::TransformerEncoderLayerOptions{width, 4}.dim_feedforward(256).dropout(0.1), 2}})},
        last{register_module("last", nn::Linear{width, vocabulary})} {}
  torch::Tensor forward(const torch::Tensor& x) { return last(encoder(embedding(x))).view({-1, vocabulary}); }
  nn::Embedding embedding;
  nn::TransformerEncoder encoder;
  nn::Linear last;
};

std::atomic<std::uint64_t> calls{0}, live{0}, peak{0};
std::mutex lock;
std::unordered_map<void*, std::size_t>& sizes() {
  static auto* const one = new std::unordered_map<void*, std::size_t>;
  return *one;
}
void give_back(void* block) {
  if (block == nullptr) return;
  {
    const std::lock_guard held{lock};
    const auto known = sizes().find(block);
    live -= known->second;
    sizes().erase(known);
  }
  c10::GetDefaultCPUAllocator()->raw_deallocate(block);
}
struct counting final : c10::Allocator {
  c10::DataPtr allocate(std::size_t size) const override {
    void* const block = c10::GetDefaultCPUAllocator()->raw_allocate(size);
    if (block != nullptr) {
      const std::lock_guard held{lock};
      ++calls;
      sizes()[block] = size;
      live += size;
      peak = std::max(peak.load(), live.load());
    }
    return {block, block, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
};
}  // namespace

struct training::state {
  explicit state(net n) : which{n} {
    if (which == net::convolutions) {
      images = std::make_shared<convolutional>();
    } else {
      text = std::make_shared<words>();
    }
    const auto parameters = images ? images->parameters() : text->parameters();
    optimiser = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions{1e-3});
  }
  net which;
  std::shared_ptr<convolutional> images;
  std::shared_ptr<words> text;
  std::unique_ptr<torch::optim::Optimizer> optimiser;
};

training::training(net which, std::uint64_t seed) {
  torch::manual_seed(seed);
  state_ = new state{which};
}
training::~training() {
  delete state_;
}

float training::step() {
  state& s = *state_;
  s.optimiser->zero_grad();
  torch::Tensor loss;
  if (s.which == net::convolutions) {
    const auto y = s.images->forward(torch::randn({16, 3, 64, 64}));
    loss = nn::functional::cross_entropy(y, torch::randint(10, {16}, torch::kLong));
  } else {
    const auto x = torch::randint(words::vocabulary, {33, 8}, torch::kLong);
    const auto y = s.text->forward(x.slice(0, 0, 32));
    loss = nn::functional::cross_entropy(y, x.slice(0, 1, 33).reshape({-1}));
  }
  loss.backward();
  s.optimiser->step();
  return loss.item<float>();
}

void set_threads(int n) {
  torch::set_num_threads(n);
}
void count_own_allocator() {
  c10::SetCPUAllocator(new counting, 1);
}
asked counted() {
  return {calls, live, peak};
}

}  // namespace torch_steps
