// The store of `berth plan DIR --cache DIR|URL`, which Python's PlanCache shares.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace berth::tool {

// Entries by name. A folder is read here; a URL by `python3 -m berth.cache URL`, which runs until the destructor. A
// store that fails has no entries: the first failure is a line on standard error.
class plan_cache {
 public:
  // Throws usage_error if `where` cannot be a folder, or the program cannot be started.
  explicit plan_cache(std::string where);
  plan_cache(const plan_cache&) = delete;
  plan_cache& operator=(const plan_cache&) = delete;
  ~plan_cache();

  // Returns the entries that are there. Asks for all of them at once.
  [[nodiscard]] std::map<std::string, std::string> get(const std::vector<std::string>& names);
  void put(const std::string& name, const std::string& entry);
  // Prints the first line about this store on standard error.
  void warn(const std::string& what);

 private:
  [[nodiscard]] std::string file_of(const std::string& name) const;
  void start();
  void send(std::string_view text);
  void receive(char* to, std::size_t count);

  std::string where_;
  int helper_ = -1;  // a socket
  int process_ = -1;
  bool is_folder_ = true;
  bool warned_ = false;
};

}  // namespace berth::tool
