#include "berth/trace/engine_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/pickle_maker.hpp"

namespace {
using namespace berth::trace;
using berth::trace_test::dict;
using berth::trace_test::list;
using berth::trace_test::number;
using berth::trace_test::pickled;
using berth::trace_test::text;
using testing::HasSubstr;

std::string frames(std::initializer_list<std::pair<std::string, std::uint64_t>> all) {
  std::vector<std::string> out;
  for (const auto& [file, line] : all) out.push_back(dict({{"filename", text(file)}, {"line", number(line)}}));
  return list(out);
}

std::string happens(const std::string& action, std::uint64_t address, std::uint64_t size, std::uint64_t time,
                    const std::string& at = "]") {
  return dict({{"action", text(action)},
               {action == "oom" ? "device_free" : "addr", number(address)},
               {"size", number(size)},
               {"stream", number(0)},
               {"time_us", number(time)},
               {"frames", at}});
}

std::string block(std::uint64_t size, std::uint64_t asked, const std::string& state) {
  return dict({{"size", number(size)}, {"requested_size", number(asked)}, {"state", text(state)}});
}

std::string segment(std::uint64_t address, std::uint64_t size, const std::vector<std::string>& blocks,
                    std::uint64_t device = 0) {
  return dict({{"device", number(device)},
               {"address", number(address)},
               {"total_size", number(size)},
               {"stream", number(0)},
               {"blocks", list(blocks)}});
}

std::string snapshot_of(const std::vector<std::string>& segments, const std::vector<std::string>& traces) {
  return pickled(dict({{"segments", list(segments)}, {"device_traces", list(traces)}}));
}

TEST(engine_log, of_pytorch) {
  const std::string place = frames({{"/usr/lib/python3/torch/nn/linear.py", 3}, {"/home/me/train.py", 42}});
  const std::string trace =
      list({happens("free_requested", 5000, 100, 1000), happens("free_completed", 5000, 100, 1000),
            happens("segment_alloc", 1 << 20, 4096, 1001), happens("alloc", 1 << 20, 1000, 1002, place),
            happens("segment_free", 1 << 21, 8192, 1003), happens("oom", 512, 9000, 1004, place),
            happens("snapshot", 0, 0, 1005)});
  const std::string bytes = snapshot_of({segment(1 << 20, 4096,
                                                 {block(1024, 1000, "active_allocated"), block(1024, 1024, "inactive"),
                                                  block(2048, 2000, "active_pending_free")})},
                                        {trace, "]"});
  const auto log = parse_pytorch_snapshot(bytes);
  ASSERT_TRUE(log) << log.error().what;
  EXPECT_EQ(log->alive_before, 2u);  // the one that was freed, and the one that nothing was said of
  const auto& events = log->history.events;
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].address, 5000u);
  EXPECT_EQ(events[1].address, (1u << 20) + 2048u);
  EXPECT_EQ(events[1].size, 2000u);
  EXPECT_FALSE(events[2].allocate);
  EXPECT_EQ(events[3].size, 1000u);
  EXPECT_DOUBLE_EQ(events[3].t_us, 2);
  ASSERT_EQ(events[3].site, 1u);
  EXPECT_EQ(log->history.sites[0].file, "/home/me/train.py");
  EXPECT_EQ(log->history.sites[0].line, 42u);
  // 8192 before, then 4096 more, then 8192 fewer: what is there at the end.
  EXPECT_EQ(log->reserved_peak, 12288u);
  ASSERT_EQ(log->failed.size(), 1u);
  EXPECT_EQ(log->failed[0].before, 4u);
  EXPECT_EQ(log->failed[0].size, 9000u);
  EXPECT_EQ(log->failed[0].reserved, 4096u);
  EXPECT_EQ(log->failed[0].device_free, 512u);
  EXPECT_EQ(log->failed[0].site, 1u);
}

// _record_memory_history() writes the frames of C++ too, before those of Python; Jupyter and Windows have their own
// names.
TEST(engine_log, of_pytorch_the_place_is_the_users) {
  struct frame {
    const char *file, *function;
  };
  const auto chosen = [](std::initializer_list<frame> all) {
    std::vector<std::string> out;
    for (const frame& f : all) {
      out.push_back(dict({{"filename", text(f.file)}, {"line", number(7)}, {"name", text(f.function)}}));
    }
    const std::string bytes = snapshot_of({}, {list({happens("alloc", 64, 1, 0, list(out))})});
    const auto log = parse_pytorch_snapshot(bytes);
    return log && log->history.sites.size() == 1 ? log->history.sites[0].file : "";
  };
  const frame torch{"/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "forward"};
  const frame caching{"CUDACachingAllocator.cpp", "c10::cuda::CUDACachingAllocator::Native::malloc(unsigned long)"};
  const frame made{"python_torch_functions_0.cpp", "torch::autograd::THPVariable_zeros(_object*)"};
  const frame interpreter{"/usr/local/src/conda/python-3.12.3/Objects/descrobject.c", "method_vectorcall"};
  EXPECT_EQ(chosen({caching, {"", "x"}, {"??", "x"}, made, interpreter, torch, {"/home/me/train.py", "f"}, torch}),
            "/home/me/train.py");
  EXPECT_EQ(chosen({{"C:\\lib\\site-packages\\torch\\nn\\linear.py", "f"}, {"C:\\me\\train.py", "f"}}),
            "C:\\me\\train.py");
  EXPECT_EQ(chosen({torch, {"/usr/lib/torch_npu/contrib/transfer_to_npu.py", "f"}, {"train.py", "f"}}), "train.py");
  EXPECT_EQ(chosen({torch, {"<ipython-input-5-0b1f>", "<module>"}}), "<ipython-input-5-0b1f>");
  EXPECT_EQ(chosen({caching, {"<frozen runpy>", "run"}, torch}), torch.file);
  EXPECT_EQ(chosen({caching, made, {"/home/me/serve.cpp", "serve(int)"}}), "/home/me/serve.cpp");  // libtorch alone
  EXPECT_EQ(chosen({caching}), caching.file);
  // The thread of autograd: libtorch has no file names, and the thread's entry is no place.
  const frame empty{"??", "at::_ops::empty_memory_format::call(c10::ArrayRef<long>)"};
  const frame mm{"??", "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"};
  const frame backward{"??", "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)"};
  const frame engine{"engine.cpp", "torch::autograd::Engine::thread_init(int)"};
  const frame entry{"thread48.o", "execute_native_thread_routine"};
  EXPECT_EQ(chosen({caching, empty, mm, backward, engine, entry}), "at::_ops::mm");
  EXPECT_EQ(chosen({caching, empty, backward, engine, entry, {"??", "clone"}}),
            "torch::autograd::generated::MmBackward0");
  EXPECT_EQ(chosen({entry, engine}), engine.file);
  EXPECT_EQ(chosen({{"../gcc/libstdc++-v3/src/c++11/thread.cc", "x"}, engine}), engine.file);
  EXPECT_EQ(chosen({caching, mm, {"/home/me/serve.cpp", "serve(int)"}}), "/home/me/serve.cpp");
  EXPECT_EQ(chosen({{"??", "x"}}), "");
}

// A frame is looked at once, however often lists name it: each time took microseconds, and an entry two bytes.
TEST(engine_log, of_pytorch_a_frame_that_is_named_two_million_times) {
  std::string place = "](" + dict({{"filename", text(std::string(1024, '/'))}, {"line", number(7)}}) + "\x94";
  for (int i = 0; i < 2'000'000; ++i) {
    place.append("h\0", 2);
    if (i % 1000 == 999) place += "e(";
  }
  place += 'e';
  const auto log = parse_pytorch_snapshot(
      snapshot_of({segment(1 << 20, 4096, {})}, {list({happens("alloc", 1 << 20, 1000, 1002, place)})}));
  ASSERT_TRUE(log) << log.error().what;
  ASSERT_EQ(log->history.events.size(), 1u);
  EXPECT_EQ(log->history.sites[log->history.events[0].site - 1].line, 7u);
}

// stacks of the state only; and PyTorch 2.0, whose blocks have a history.
TEST(engine_log, of_pytorch_what_only_the_segments_say) {
  const std::string place = frames({{"/home/me/train.py", 42}});
  const std::string with_frames = dict({{"size", number(512)}, {"state", text("active_allocated")}, {"frames", place}});
  const std::string former = dict({{"addr", number(8192)}, {"real_size", number(4)}, {"frames", place}});
  const std::string of_2_0 =
      dict({{"size", number(512)}, {"state", text("active_allocated")}, {"history", list({former})}});
  const std::string bytes = snapshot_of({segment(4096, 512, {with_frames}), segment(8192, 512, {of_2_0})},
                                        {list({happens("alloc", 4096, 500, 0)})});
  const auto log = parse_pytorch_snapshot(bytes);
  ASSERT_TRUE(log) << log.error().what;
  const auto& events = log->history.events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].address, 8192u);
  EXPECT_EQ(events[0].size, 4u);
  EXPECT_EQ(events[1].size, 500u);
  for (const event& e : events) {
    ASSERT_NE(e.site, 0u);
    EXPECT_EQ(log->history.sites[e.site - 1].line, 42u);
  }
}

TEST(engine_log, of_pytorch_what_was_held_when_it_failed) {
  const auto log = parse_pytorch_snapshot(
      snapshot_of({segment(4096, 100, {})},
                  {list({happens("oom", 1, 1, 0), happens("segment_map", 4096, 100, 1), happens("oom", 2, 1, 2)})}));
  ASSERT_TRUE(log);
  ASSERT_EQ(log->failed.size(), 2u);
  EXPECT_EQ(log->failed[0].reserved, 0u);
  EXPECT_EQ(log->failed[1].reserved, 100u);
}

TEST(engine_log, of_pytorch_without_a_history) {
  const std::string one = segment(4096, 4096, {block(1024, 1000, "active_allocated")}, 1);
  for (const std::string& bytes : {pickled(list({one})), snapshot_of({one}, {"]", "]"})}) {
    const auto log = parse_pytorch_snapshot(bytes);
    ASSERT_TRUE(log) << log.error().what;
    EXPECT_EQ(log->device, 1u);
    ASSERT_EQ(log->history.events.size(), 1u);
    EXPECT_EQ(log->history.events[0].size, 1000u);
    EXPECT_EQ(log->reserved_peak, 4096u);
  }
}

TEST(engine_log, of_pytorch_with_several_devices) {
  const auto log = parse_pytorch_snapshot(snapshot_of(
      {segment(1, 10, {}, 0), segment(1, 20, {}, 1)},
      {list({happens("alloc", 64, 1, 0)}), list({happens("alloc", 64, 2, 0), happens("alloc", 65, 2, 0)})}));
  ASSERT_TRUE(log);
  EXPECT_EQ(log->device, 1u);
  EXPECT_EQ(log->devices, 2u);
  EXPECT_EQ(log->history.events.size(), 2u);
  EXPECT_EQ(log->reserved_peak, 20u);
}

TEST(engine_log, of_pytorch_that_contradicts_itself) {
  // Allocated twice without a free between, freed twice, and a free of another size: each counts once.
  const auto log = parse_pytorch_snapshot(
      snapshot_of({}, {list({happens("alloc", 64, 10, 0), happens("alloc", 64, 20, 0),
                             happens("free_completed", 64, 99, 0), happens("free_completed", 64, 20, 0)})}));
  ASSERT_TRUE(log);
  EXPECT_EQ(log->unmatched, 2u);
  ASSERT_EQ(log->history.events.size(), 4u);
  EXPECT_EQ(log->history.events[1].size, 10u);
  EXPECT_EQ(log->history.events[3].size, 20u);
  EXPECT_TRUE(alive(log->history).empty());
  EXPECT_FALSE(log->reserved_peak);
}

TEST(engine_log, of_pytorch_made_to_hurt) {
  const auto why = [](const std::string& bytes) {
    const auto log = parse_pytorch_snapshot(bytes);
    return std::string{log ? "" : log.error().what};
  };
  EXPECT_THAT(why(pickled("N")), HasSubstr("no list of segments"));
  EXPECT_THAT(why(pickled(dict({{"segments", "N"}}))), HasSubstr("no list of segments"));
  EXPECT_THAT(why(snapshot_of({"N"}, {})), HasSubstr("no dictionary"));
  EXPECT_THAT(why(snapshot_of({"}"}, {})), HasSubstr("no size"));
  EXPECT_THAT(why(snapshot_of({}, {list({"N"})})), HasSubstr("no dictionary"));
  EXPECT_THAT(why(snapshot_of({}, {list({dict({{"action", text("alloc")}})})})), HasSubstr("no address"));
  EXPECT_THAT(why(snapshot_of({}, {list({happens("alloc", 64, UINT64_MAX, 0)})})), HasSubstr("2^62"));
  const std::string large = happens("alloc", 64, std::uint64_t{1} << 62, 0);
  EXPECT_THAT(why(snapshot_of({}, {list({large, happens("alloc", 0, 1, 0)})})), HasSubstr("2^62"));
  EXPECT_THAT(why(snapshot_of({}, {list({large, happens("free_completed", 0, 1, 0)})})), HasSubstr("2^62"));
  EXPECT_THAT(why(snapshot_of({segment(0, UINT64_MAX, {})}, {})), HasSubstr("2^62"));
  EXPECT_EQ(why(snapshot_of({}, {list({happens("oom", UINT64_MAX, UINT64_MAX, UINT64_MAX)})})), "");
  // One event that a thousand bytes of the memo make a thousand events.
  std::string again = happens("alloc", 64, 1, 0) + "\x94";
  for (int i = 0; i < 1000; ++i) again += std::string{"h\0", 2};
  EXPECT_THAT(why(snapshot_of({}, {list({again})})), HasSubstr("twice"));
  std::vector<std::pair<std::string, std::string>> keys(65, {"k", "N"});
  EXPECT_THAT(why(snapshot_of({}, {list({dict(keys)})})), HasSubstr("64 keys"));
}

TEST(engine_log, a_snapshot_becomes_one_of_pytorch) {
  snapshot s{.sites = {{"a.cpp", 7}, {"\xff", 70000}}};
  const auto add = [&s](bool allocate, std::uint64_t address, berth::bytes size, std::uint32_t site) {
    s.events.push_back({.allocate = allocate,
                        .site = site,
                        .address = address,
                        .size = size,
                        .t_us = static_cast<double>(s.events.size())});
  };
  add(true, 4096, 100, 1);
  add(true, 0x7fff12345678, 3000000000, 2);
  add(true, 8192, 50, 0);
  add(false, 4096, 100, 0);
  add(true, std::uint64_t{1} << 63, 10, 1);
  const auto back = parse_pytorch_snapshot(to_pytorch_pickle(s));
  ASSERT_TRUE(back) << back.error().what;
  ASSERT_EQ(back->history.events.size(), s.events.size());
  for (std::size_t i = 0; i < s.events.size(); ++i) {
    EXPECT_EQ(back->history.events[i].allocate, s.events[i].allocate);
    EXPECT_EQ(back->history.events[i].address, s.events[i].address);
    EXPECT_EQ(back->history.events[i].size, s.events[i].size);
    EXPECT_DOUBLE_EQ(back->history.events[i].t_us, s.events[i].t_us);
  }
  EXPECT_EQ(alive(back->history).size(), 3u);
  EXPECT_EQ(back->alive_before, 0u);
  const auto& far = back->history.events[1];
  EXPECT_EQ(back->history.sites[far.site - 1].file, "\xef\xbf\xbd");
  EXPECT_EQ(back->history.sites[far.site - 1].line, 70000u);
  // Three stretches: two blocks near one another, one far away, one at the top.
  EXPECT_EQ(back->reserved_peak, 8192u + 50 - 4096 + 3000000000u + 10);
  EXPECT_TRUE(parse_pytorch_snapshot(to_pytorch_pickle({})));
}

TEST(engine_log, of_rmm) {
  const auto log = parse_rmm_csv(
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "77,23:59:59.500000,allocate,0x7f0000000400,1024,0x2\n"
      "78,23:59:59:750000,allocate,7f0000000800,2048,default\r\n"
      "77,00:00:00.500000,free,0x7f0000000400,1024,0x2\n"
      "77,00:00:00.500000,allocate failure,(nil),4096,0x2\n"
      "77,00:00:00.600000,deallocate,0x7f00000f0000,512,0x2\n"
      "77,00:00:00.600000,allocate,(nil),0,0x2\n"
      "77,00:00:00.600000,allocate,0x0,0,0x2\n");
  ASSERT_TRUE(log) << log.error().what << log.error().number;
  const auto& events = log->history.events;
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(log->alive_before, 1u);
  EXPECT_EQ(events[0].size, 512u);
  EXPECT_EQ(events[1].address, 0x7f0000000400u);
  EXPECT_EQ(events[2].address, 0x7f0000000800u);
  EXPECT_EQ(events[2].stream, 1u);
  EXPECT_EQ(events[2].thread, 1u);
  EXPECT_NEAR(events[2].t_us, 250000, 1);
  EXPECT_NEAR(events[3].t_us, 1000000, 1);  // past midnight
  ASSERT_EQ(log->failed.size(), 1u);
  EXPECT_EQ(log->failed[0].before, 4u);
  EXPECT_EQ(log->failed[0].size, 4096u);
  EXPECT_FALSE(log->failed[0].reserved || log->failed[0].device_free || log->reserved_peak);
}

// A thread dates its row, and waits for another that passes midnight before it writes it.
TEST(engine_log, of_rmm_at_midnight) {
  const auto log = parse_rmm_csv(
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "1,23:59:59.999990,allocate,0x40,1,0\n"
      "2,00:00:00.000003,allocate,0x80,1,0\n"
      "1,23:59:59.999999,free,0x40,1,0\n"
      "2,00:00:00.000010,free,0x80,1,0\n"
      "2,13:00:00.000000,allocate,0x40,1,0\n"
      "2,00:00:01.000000,free,0x40,1,0\n");  // half a day of silence is no step back
  ASSERT_TRUE(log);
  const auto& events = log->history.events;
  ASSERT_EQ(events.size(), 6u);
  EXPECT_NEAR(events[1].t_us, 13, 0.1);
  EXPECT_NEAR(events[2].t_us, 13, 0.1);
  EXPECT_NEAR(events[3].t_us, 20, 0.1);
  EXPECT_NEAR(events[5].t_us, 86400e6 + 1000010, 0.1);
}

// A program that ran out of memory and crashed never wrote the rest of its buffer.
TEST(engine_log, of_rmm_that_a_crash_cut_off) {
  const std::string whole =
      "Thread,Time,Action,Pointer,Size,Stream\n"
      "1,10:00:00.000001,allocate,0x40,1048576,0\n"
      "1,10:00:00.000002,allocate failure,(nil),4096,0\n";
  const std::string last = "1,10:00:00.000003,allocate,0x200000,1048576,0";
  for (std::size_t n = 0; n <= last.size(); ++n) {
    const auto log = parse_rmm_csv(whole + last.substr(0, n));
    ASSERT_TRUE(log) << n << log.error().what;
    EXPECT_EQ(log->failed.size(), 1u);
    const bool all = n >= last.size() - 1;  // but for the stream
    EXPECT_EQ(log->history.events.size(), all ? 2u : 1u) << n;
    EXPECT_EQ(log->unmatched, all || n == 0 ? 0u : 1u) << n;
  }
}

TEST(engine_log, of_rmm_that_is_wrong_names_the_line) {
  const std::string head = "Thread,Time,Action,Pointer,Size,Stream\n";
  for (const std::string row :
       {"1,x,allocate,0x40,1,0", "1,1:2:3:4:5,allocate,0x40,1,0", "1,99:99:99.0,allocate,0x40,1,0",
        "1,1.0,grow,0x40,1,0", "1,1.0,allocate,zz,1,0", "1,1.0,allocate,0x40,-1,0", "1,1.0,allocate,0x40,,0",
        "1,1.0,allocate,0x40,18446744073709551615,0", "1,1.0,free,0x40,18446744073709551615,0", "1",
        "1,1.0,allocate,0x,1,0", "1,99999999999999999999,allocate,0x40,1,0"}) {
    const auto log = parse_rmm_csv(head + row + "\n");
    ASSERT_FALSE(log) << row;
    EXPECT_EQ(log.error().number, 2u) << row;
  }
  EXPECT_FALSE(parse_rmm_csv(""));
  EXPECT_FALSE(parse_rmm_csv("ev,id\n"));
}
}  // namespace
