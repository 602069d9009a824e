// The schedulers that share their memory by the environment: BERTH_GGML_SHARE. See berth/graph/adapters/ggml.h.
//
// Compiled against the user's ggml, with berth_ggml.cpp; no part of the compiled library.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ggml_store.hpp"

namespace berth::ggml {

class sharing {
 public:
  enum class scope : std::uint8_t { off, thread, process };

  // Reads the environment. A wrong value is an error in ggml's log, and nothing is shared.
  [[nodiscard]] static sharing from_environment() {
    const char* const said = std::getenv("BERTH_GGML_SHARE");
    if (said == nullptr || *said == '\0') return {};
    const std::string_view text{said};
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    sharing found;
    if (name == "process") found.scope_ = scope::process;
    if (name == "thread") found.scope_ = scope::thread;
    if (colon != std::string_view::npos) found.types_ = text.substr(colon + 1);
    if (found.scope_ == scope::off || (colon != std::string_view::npos && found.types_.empty())) {
      GGML_LOG_ERROR("berth: BERTH_GGML_SHARE=%s is not understood (process, thread, process:TYPE,...): not shared\n",
                     said);
      return {};
    }
    return found;
  }

  [[nodiscard]] explicit operator bool() const noexcept { return scope_ != scope::off; }

  // Returns whether buffers of this type are to be shared.
  [[nodiscard]] bool covers(ggml_backend_buffer_type_t type) const {
    if (types_.empty()) return true;
    const std::string_view wanted = ggml_backend_buft_name(type);
    for (std::string_view left{types_}; !left.empty();) {
      const std::size_t comma = std::min(left.find(','), left.size());
      if (left.substr(0, comma) == wanted) return true;
      left.remove_prefix(std::min(comma + 1, left.size()));
    }
    return false;
  }

  // Returns the store that this process or thread shares for the type; null: there is none yet.
  [[nodiscard]] std::shared_ptr<store> find(ggml_backend_buffer_type_t type) const {
    const std::lock_guard lock{mutex()};
    for (const auto& known : all()) {
      if (const auto s = known.lock(); s != nullptr && s->type == type) return s;
    }
    return nullptr;
  }

  // Makes find() return this store for its type, as long as it lives.
  void add(const std::shared_ptr<store>& s) const {
    const std::lock_guard lock{mutex()};
    auto& known = all();
    known.erase(std::remove_if(known.begin(), known.end(), [](const auto& k) { return k.expired(); }), known.end());
    known.push_back(s);
  }

 private:
  using stores_known = std::vector<std::weak_ptr<store>>;

  [[nodiscard]] static std::mutex& mutex() {
    static std::mutex it;
    return it;
  }
  [[nodiscard]] stores_known& all() const {
    static stores_known of_process;
    thread_local stores_known of_thread;
    return scope_ == scope::process ? of_process : of_thread;
  }

  scope scope_ = scope::off;
  std::string types_;  // separated by commas; empty: all
};

// Returns whether another allocator may take the buffers while a graph in them is still used. A backend may keep data
// of each tensor until the buffer is reset. The reset for one graph would then destroy data of the other.
[[nodiscard]] inline bool can_be_shared(const store& s) {
  return std::all_of(s.blocks.begin(), s.blocks.end(), [](const block& b) { return b.buffer->iface.reset == nullptr; });
}

}  // namespace berth::ggml
