#include <curl/curl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "engine/file.h"
#include "train/data/download.h"

namespace foldgrad {
namespace {

// curl_global_init is not for several threads; a static's initialisation is.
bool initialized() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

struct Outcome {
  CURLcode code;
  std::string text;
};

Outcome append(const std::string& url, std::FILE* file, std::uintmax_t from) {
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  if (!handle) return {CURLE_FAILED_INIT, "libcurl cannot start"};
  CURL* curl = handle.get();
  char text[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);  // no byte for this many seconds: it is dead
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 30L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, file);
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, curl_off_t(from));
  const CURLcode code = curl_easy_perform(curl);
  return {code, text[0] ? text : curl_easy_strerror(code)};
}

}  // namespace

bool download_available() { return true; }

std::string transfer(const std::string& url, const std::string& part) {
  if (!initialized()) return "libcurl cannot start";
  for (;;) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "ab"), std::fclose);
    if (!file) throw FileError(part, "cannot be opened", errno);
    const std::uintmax_t from = std::filesystem::file_size(part);
    const Outcome outcome = append(url, file.get(), from);
    if (std::fflush(file.get()) != 0) throw FileError(part, "cannot be written", errno);
    if (outcome.code == CURLE_OK) return "";
    // A server that cannot go on: once more from the beginning.
    if (outcome.code != CURLE_RANGE_ERROR || from == 0) return outcome.text;
    std::filesystem::resize_file(part, 0);
  }
}

}  // namespace foldgrad
