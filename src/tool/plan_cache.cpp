#include "tool/plan_cache.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "model/file.hpp"
#include "tool/printable.hpp"
#include "tool/verb.hpp"

namespace berth::tool {

namespace {

constexpr off_t longest_entry = off_t{1} << 28;
constexpr std::size_t longest_lengths = std::size_t{1} << 16;  // of a batch

// Returns the file's text, or nothing if it is no regular file. Never waits for a pipe, and follows no link.
std::string regular_text(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return {};
  std::string text;
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= longest_entry) {
    text.resize(static_cast<std::size_t>(status.st_size));
    const ssize_t got = ::read(file, text.data(), text.size());
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  ::close(file);
  return text;
}

}  // namespace

plan_cache::plan_cache(std::string where) : where_{std::move(where)}, is_folder_{where_.find("://") == where_.npos} {
  std::error_code failed;
  if (!is_folder_) {
    start();
  } else if (std::filesystem::create_directories(where_, failed); !std::filesystem::is_directory(where_, failed)) {
    throw usage_error("--cache: '" + where_ + "' cannot be a folder");
  }
}

void plan_cache::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw usage_error("--cache: no socket");
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(ends[1], STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::execlp("python3", "python3", "-m", "berth.cache", where_.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(ends[1]);
  helper_ = ends[0];
  if (process_ < 0) throw usage_error("--cache: no process");
}

plan_cache::~plan_cache() {
  if (helper_ >= 0) ::close(helper_);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

void plan_cache::warn(const std::string& what) {
  if (!warned_) std::fprintf(stderr, "berth: --cache %s: %s\n", printable(where_).c_str(), printable(what).c_str());
  warned_ = true;
}

std::string plan_cache::file_of(const std::string& name) const {
  return (std::filesystem::path{where_} / name.substr(0, 2) / name.substr(2)).string();
}

void plan_cache::send(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(helper_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::system_error{EPIPE, std::generic_category(), "python3 -m berth.cache has ended"};
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void plan_cache::receive(char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t got = ::recv(helper_, to, count, 0);
    if (got <= 0) throw std::system_error{EPIPE, std::generic_category(), "python3 -m berth.cache has ended"};
    to += got;
    count -= static_cast<std::size_t>(got);
  }
}

std::map<std::string, std::string> plan_cache::get(const std::vector<std::string>& names) try {
  std::map<std::string, std::string> found;
  if (is_folder_) {
    for (const std::string& name : names) {
      if (std::string text = regular_text(file_of(name)); !text.empty()) found[name] = std::move(text);
    }
    return found;
  }
  if (helper_ < 0 || names.empty()) return found;
  std::string line = "get";
  for (const std::string& name : names) line += ' ' + name;
  send(line + '\n');
  std::string lengths;
  for (char c = 0; c != '\n' && lengths.size() < longest_lengths; lengths += c) receive(&c, 1);
  std::istringstream each{lengths};
  for (const std::string& name : names) {
    off_t length = -1;
    each >> length;
    if (length > longest_entry) throw std::system_error{EFBIG, std::generic_category(), "an entry"};
    if (length < 0) continue;
    std::string& text = found[name];
    text.resize(static_cast<std::size_t>(length));
    receive(text.data(), text.size());
  }
  return found;
} catch (const std::system_error& error) {
  warn(error.what());
  ::close(helper_);
  helper_ = -1;
  return {};
}

void plan_cache::put(const std::string& name, const std::string& entry) try {
  if (is_folder_) {
    namespace fs = std::filesystem;
    const fs::path file = file_of(name);
    const fs::file_type type = fs::symlink_status(file).type();
    if (type != fs::file_type::not_found && type != fs::file_type::regular) return warn(name + " is no file");
    fs::create_directories(file.parent_path());
    model::write_file(file.string(), entry);
  } else if (helper_ >= 0) {
    send("put " + name + ' ' + std::to_string(entry.size()) + '\n' + entry);
  }
} catch (const std::exception& error) {
  warn(error.what());
}

}  // namespace berth::tool
