// How often each kernel is launched while one of these lives, by the names given to launch().
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace foldgrad::emulation {

class LaunchCounts {
 public:
  LaunchCounts();
  ~LaunchCounts();
  LaunchCounts(const LaunchCounts&) = delete;
  LaunchCounts& operator=(const LaunchCounts&) = delete;

  std::int64_t total() const;
  std::string table() const;  // a line each, the most frequent first

 private:
  friend void count_launch(const char* name);
  std::map<std::string, std::int64_t> by_name_;
  LaunchCounts* outer_;
};

void count_launch(const char* name);

}  // namespace foldgrad::emulation
