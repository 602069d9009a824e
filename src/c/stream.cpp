// Devices and streams behind berth/stream.h.
#include "berth/stream.h"

#include <memory>
#include <utility>

#include "berth/backend.h"
#include "c/objects.hpp"
#include "device/host_function.hpp"
#include "device/process.hpp"

namespace berth::c {

handles<device>& devices() noexcept {
  static never_destroyed<handles<device>> all{3, "device"};
  return all.value;
}
handles<held_stream>& streams() noexcept {
  static never_destroyed<handles<held_stream>> all{4, "stream", this_process};
  return all.value;
}
std::uint32_t this_process() noexcept {
  return detail::process_generation();
}
bool runs_work() noexcept {
  return detail::runs_host_functions::here();
}

}  // namespace berth::c

namespace {

using namespace berth::c;

template <class Open>
berth_status give_device(berth_device** out, Open open) noexcept {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_device** out: null");
  return guarded([&] {
    auto opened = open();
    if (!opened) return report(opened.error());
    return give(devices(), std::make_shared<berth::device>(std::move(*opened)), out);
  });
}

berth_status give_stream(berth::result<berth::stream> made, berth_stream** out) {
  if (!made) return report(made.error());
  return give(streams(), std::make_shared<held_stream>(held_stream{std::move(*made)}), out);
}

template <class Do>
berth_status on_stream(const berth_stream* handle, Do do_it) noexcept {
  return with(streams(), handle, [&](held_stream& held) { return do_it(held.queue); });
}

}  // namespace

extern "C" {

berth_status berth_device_open(const char* name, berth_device** out) {
  return give_device(out, [&] { return berth::device::open(name == nullptr ? "host" : name); });
}

berth_status berth_device_make(const berth_backend* backend, berth_device** out) {
  if (backend == nullptr) return fail(BERTH_INVALID, "berth_backend* backend: null");
  return give_device(out, [&] { return berth::device::make(*backend); });
}

void berth_device_close(berth_device* device) {
  (void)destroy(devices(), device);
}

berth_status berth_device_describe(const berth_device* device, berth_device_properties* properties) {
  return with(devices(), device, [&](const berth::device& held) {
    const berth::device_properties& known = held.properties();
    berth_device_properties p{};
    p.total_memory = known.total_memory;
    p.alignment = known.rules.start_alignment;
    p.granule = known.virtual_memory ? known.granule : 0;
    p.host_accessible = known.host_accessible ? 1 : 0;
    p.simulated = known.simulated ? 1 : 0;
    p.name = known.name.c_str();
    p.description = known.description.c_str();
    return write(p, sizeof p, properties, "device properties: null, or wrong struct_size");
  });
}

berth_status berth_device_register(const berth_device* device, void* memory, uint64_t size, void** device_address) {
  if (device_address == nullptr) return fail(BERTH_INVALID, "void** device_address: null");
  return with(devices(), device, [&](const berth::device& held) {
    return give_value(held.register_memory(memory, size), device_address);
  });
}

berth_status berth_device_unregister(const berth_device* device, void* device_address, uint64_t size) {
  return with(devices(), device,
              [&](const berth::device& held) { return held.unregister_memory(device_address, size); });
}

berth_status berth_stream_create(const berth_device* device, berth_stream** out) {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_stream** out: null");
  return with(devices(), device,
              [&](const berth::device& held) { return give_stream(berth::stream::create(held), out); });
}

berth_status berth_stream_wrap(const berth_device* device, void* native, berth_stream** out) {
  if (out == nullptr) return fail(BERTH_INVALID, "berth_stream** out: null");
  return with(devices(), device,
              [&](const berth::device& held) { return give_stream(berth::stream::wrap(held, native), out); });
}

void berth_stream_destroy(berth_stream* stream) {
  std::shared_ptr<berth::stream_clock> clock;
  if (const auto held = streams().look_up(stream); !(held == nullptr)) clock = held->queue.clock();
  const berth_status status = destroy(streams(), stream);
  // An allocator may keep it (berth/onnxruntime.h): then its end is not what waits.
  if (status == BERTH_OK && clock != nullptr) (void)berth::stream::synchronize(*clock);
}

berth_status berth_stream_native(const berth_stream* stream, void** native) {
  if (native == nullptr) return fail(BERTH_INVALID, "void** native: null");
  return on_stream(stream, [&](berth::stream& s) {
    *native = s.native();
    return succeed();
  });
}

berth_status berth_stream_copy(berth_stream* stream, void* to, const void* from, uint64_t size) {
  if (size != 0 && (to == nullptr || from == nullptr)) return fail(BERTH_INVALID, "copy: null");
  return on_stream(stream, [&](berth::stream& s) { return s.copy(to, from, size); });
}

berth_status berth_stream_fill(berth_stream* stream, void* to, unsigned char value, uint64_t size) {
  if (size != 0 && to == nullptr) return fail(BERTH_INVALID, "fill: null");
  return on_stream(stream, [&](berth::stream& s) { return s.fill(to, std::byte{value}, size); });
}

berth_status berth_stream_call(berth_stream* stream, void (*function)(void* context), void* context) {
  if (function == nullptr) return fail(BERTH_INVALID, "function: null");
  return on_stream(stream, [&](berth::stream& s) { return s.call(function, context); });
}

berth_status berth_stream_wait_for(berth_stream* stream, berth_stream* other) {
  const auto behind = streams().look_up(other);
  if (behind == nullptr) return no_such(other, "the other stream");
  return on_stream(stream, [&](berth::stream& s) -> berth::result<void> {
    if (!(s.get_device() == behind->queue.get_device())) {
      return berth::error{berth::errc::invalid_input, "streams: of two devices"};
    }
    auto reached = berth::event::create(s.get_device());
    if (!reached) return reached.error();
    if (auto done = behind->queue.record(*reached); !done) return done;
    return s.wait(*reached);
  });
}

berth_status berth_stream_synchronize(berth_stream* stream) {
  if (runs_work() && streams().look_up(stream) != nullptr) {
    return fail(BERTH_INVALID, "stream: a host function would wait for work, perhaps its own");
  }
  return on_stream(stream, [](berth::stream& s) { return s.synchronize(); });
}

berth_status berth_stream_query(berth_stream* stream, int* done) {
  if (done == nullptr) return fail(BERTH_INVALID, "int* done: null");
  return on_stream(stream, [&](berth::stream& s) -> berth::result<void> {
    const auto answer = s.query();
    if (!answer) return answer.error();
    *done = *answer ? 1 : 0;
    return {};
  });
}

}  // extern "C"
