// A pool over Vulkan memory: vulkan_backend.hpp makes the device. A command of the program's own runs in stream order.
#include <cstdio>
#include <optional>

#include "berth/pool/pool.hpp"
#include "vulkan_backend.hpp"

int main() {
  std::optional<vulkan_backend> vulkan;  // outlives the device
  try {
    vulkan.emplace();
  } catch (const vulkan_error& none) {
    std::printf("skipped: no Vulkan device here (%s)\n", none.what());
    return 0;
  }
  bool right = false;
  {
    const berth::device device = berth::device::make(vulkan->functions()).value();
    berth::stream stream{device};
    berth::pool pool{device};
    std::printf("%s: %s\n", device.properties().name.c_str(), device.properties().description.c_str());

    auto first = pool.allocate(1 << 20, stream).value();
    auto second = pool.allocate(1 << 20, stream).value();
    const auto place = vulkan->locate(second.data()).value();
    std::printf("the second block is byte %llu of its VkBuffer\n", static_cast<unsigned long long>(place.offset));

    stream.fill(first.data(), std::byte{7}, 1 << 20).value();
    auto* own = static_cast<vulkan_backend::timeline*>(stream.native());
    own->submit([&](VkCommandBuffer commands) {  // runs behind the fill
      const auto from = vulkan->locate(first.data()).value();
      const VkBufferCopy all{from.offset, place.offset, 1 << 20};
      vkCmdCopyBuffer(commands, from.buffer, place.buffer, 1, &all);
    });
    unsigned char last = 0;
    stream.copy(&last, static_cast<std::byte*>(second.data()) + (1 << 20) - 1, 1).value();
    stream.synchronize().value();
    std::printf("its last byte is %u\n", last);
    right = last == 7;
  }
  return right && vulkan->live_blocks() == 0 ? 0 : 1;
}
