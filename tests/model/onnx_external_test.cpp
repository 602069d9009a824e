// External data: read beside the model, and nowhere else.
#include <gtest/gtest.h>

#include <filesystem>

#include "berth/model/onnx.hpp"
#include "berth/model/program.hpp"
#include "model/complaint.hpp"
#include "model/file.hpp"
#include "model/onnx_maker.hpp"
#include "model/running.hpp"
#include "support/temporary_folder.hpp"

namespace berth::model {
namespace {

using test::onnx_maker;
using T = onnx::TensorProto;
namespace fs = std::filesystem;

class onnx_external : public testing::Test {
 protected:
  onnx_external() {
    fs::create_directories(folder_.path("model/weights"));
    maker_.input("x", {2}).floats("w", {2}, {0, 0}).node("Add", {"x", "w"}, {"y"}).output("y");
    auto* w = maker_.model().mutable_graph()->mutable_initializer(0);
    w->clear_float_data();
    w->set_data_location(T::EXTERNAL);
    const float values[] = {7, 1, 2, 8};
    write_file(folder_.path("model/weights/w.bin"), {reinterpret_cast<const char*>(values), sizeof values});
    write_file(folder_.path("outside.bin"), {reinterpret_cast<const char*>(values), sizeof values});
    say("location", "weights/w.bin");
  }
  void say(const std::string& key, const std::string& value) {
    auto* w = maker_.model().mutable_graph()->mutable_initializer(0);
    for (auto& entry : *w->mutable_external_data()) {
      if (entry.key() == key) return entry.set_value(value);
    }
    auto* entry = w->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  description read() {
    write_file(path_, maker_.text());
    return read_onnx(path_);
  }
  std::string complaint() {
    return test::complaint_of(path_, [&] { (void)read(); });
  }
  std::string complaint_about(const std::string& location) {
    say("location", location);
    return complaint();
  }

  support::temporary_folder folder_;
  const std::string path_ = folder_.path("model/model.onnx");
  onnx_maker maker_;
};

TEST_F(onnx_external, weights_are_read_from_their_place_in_a_file_beside_the_model) {
  say("offset", "4");
  for (const char* length : {"", "8"}) {
    if (*length != 0) say("length", length);
    const test::ran r = test::run(read(), {{{2}, {10, 20}}});
    EXPECT_EQ(r.outputs[0].values, (std::vector<float>{11, 22}));
  }
}

TEST_F(onnx_external, what_is_not_there_is_said) {
  const std::string w = "tensor 'w', external data: ";
  say("offset", "12");
  EXPECT_EQ(complaint(), w + "ends beyond the 16 bytes of 'weights/w.bin'");
  say("offset", "18446744073709551615");
  EXPECT_EQ(complaint(), w + "ends beyond the 16 bytes of 'weights/w.bin'");
  say("offset", "-1");
  EXPECT_EQ(complaint(), w + "offset '-1' is no number");
  say("offset", "0");
  say("length", "12");
  EXPECT_EQ(complaint(), w + "says 12 bytes where its shape takes 8");
  say("length", "8");
  EXPECT_EQ(complaint_about("weights/v.bin"), w + "there is no file 'weights/v.bin' beside the model");
  EXPECT_EQ(complaint_about("weights"), w + "there is no file 'weights' beside the model");
}

// A model from elsewhere must not bring foreign files into its outputs, nor tell whether they are there.
TEST_F(onnx_external, no_file_elsewhere_is_looked_at) {
  fs::create_symlink(folder_.path("outside.bin"), folder_.path("model/link.bin"));
  fs::create_symlink(folder_.path("nowhere.bin"), folder_.path("model/dangling.bin"));
  for (const std::string& location :
       {std::string{"../outside.bin"}, std::string{"weights/../../outside.bin"}, std::string{"../absent.bin"},
        folder_.path("outside.bin"), std::string{"link.bin"}, std::string{"dangling.bin"}, std::string{}}) {
    EXPECT_EQ(complaint_about(location),
              "tensor 'w', external data: '" + location + "' is no path below the model's folder, or passes a link");
  }
}

TEST_F(onnx_external, one_file_does_not_stand_for_any_number_of_tensors) {
  auto* g = maker_.model().mutable_graph();
  for (int i = 0; i < 20; ++i) {
    *g->add_initializer() = g->initializer(0);
    g->mutable_initializer(i + 1)->set_name("more" + std::to_string(i));
  }
  EXPECT_EQ(complaint(),
            "tensor 'more7', external data: with it, the tensors take more than four times the files they lie in");
}

TEST_F(onnx_external, a_file_is_one_however_its_path_is_written) {
  fs::create_hard_link(folder_.path("model/weights/w.bin"), folder_.path("model/again.bin"));
  auto* g = maker_.model().mutable_graph();
  std::string location = "weights/w.bin";
  for (int i = 0; i < 20; ++i) {
    *g->add_initializer() = g->initializer(0);
    g->mutable_initializer(i + 1)->set_name("more" + std::to_string(i));
    location.insert(0, i % 3 == 2 ? ".//" : "./");
    g->mutable_initializer(i + 1)->mutable_external_data(0)->set_value(i == 5 ? "again.bin" : location);
  }
  EXPECT_EQ(complaint(),
            "tensor 'more7', external data: with it, the tensors take more than four times the files they lie in");
}

// Two bytes a component, each of which was looked up from the first on.
TEST_F(onnx_external, a_path_of_thousands_of_components) {
  std::string here;
  for (int i = 0; i < 2000; ++i) here += "./";
  for (const std::string& location : {here + "weights/w.bin", here + "a/" + here + "w.bin"}) {
    say("location", location);
    auto* g = maker_.model().mutable_graph();
    for (int i = g->initializer_size(); i < 400; ++i) {
      *g->add_initializer() = g->initializer(0);
      g->mutable_initializer(i)->set_name("more" + std::to_string(i));
    }
    const bool is_there = location.ends_with("weights/w.bin");
    EXPECT_THAT(complaint(), testing::HasSubstr(is_there ? "more than four times the files" : "there is no file"));
  }
  EXPECT_THAT(complaint_about(here + ".."), testing::HasSubstr("is no path below the model's folder"));
}

TEST_F(onnx_external, bytes_without_a_folder_have_none) {
  EXPECT_EQ(test::complaint_of("bytes", [&] { (void)read_onnx("bytes", maker_.text(), {}); }),
            "tensor 'w': external data is not read here");
}

}  // namespace
}  // namespace berth::model
