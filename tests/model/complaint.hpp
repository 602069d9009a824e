// The error that a reader throws at a file, for tests of files that are wrong.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "berth/model/input_error.hpp"

namespace berth::test {

// Returns the error of `read()` behind the path; "" without one. It is one line, and begins with the path.
template <class Read>
std::string complaint_of(const std::string& path, Read read) {
  try {
    read();
    return "";
  } catch (const model::input_error& e) {
    const std::string what = e.what();
    EXPECT_TRUE(what.starts_with(path + ": ")) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    return what.substr(path.size() + 2);
  }
}

}  // namespace berth::test
