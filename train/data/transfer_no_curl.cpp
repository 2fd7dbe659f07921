// Stands in for transfer_curl.cpp in builds without libcurl.
#include "train/data/download.h"

namespace foldgrad {

bool download_available() { return false; }

std::string transfer(const std::string&, const std::string&, std::int64_t) {
  return "this build cannot download; install libcurl4-openssl-dev and configure with FOLDGRAD_CURL=ON";
}

}  // namespace foldgrad
