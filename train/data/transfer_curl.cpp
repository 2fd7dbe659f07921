#include <curl/curl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "engine/files/file.h"
#include "train/data/download.h"

namespace foldgrad {
namespace {

struct Outcome {
  CURLcode code;
  std::string text;
  long status = 0;  // HTTP status
};

struct Target {
  std::FILE* file;
  std::int64_t left;  // bytes that it may still grow by
};

// Less than what came makes libcurl stop with CURLE_WRITE_ERROR.
std::size_t take(const char* data, std::size_t size, std::size_t count, void* target) {
  auto& [file, left] = *static_cast<Target*>(target);
  left -= std::int64_t(size * count);
  return left < 0 ? 0 : std::fwrite(data, size, count, file);
}

Outcome append(const std::string& url, Target& target, std::uintmax_t from) {
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
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);  // bytes a second on average over
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);     // this many seconds
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &target);
  curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, curl_off_t(from));
  const CURLcode code = curl_easy_perform(curl);
  Outcome outcome{code, text[0] ? text : curl_easy_strerror(code)};
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &outcome.status);
  return outcome;
}

}  // namespace

bool download_available() { return true; }

std::string transfer(const std::string& url, const std::string& part, std::int64_t most_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "ab"), std::fclose);
  if (!file) throw FileError(part, "cannot be opened", errno);
  const std::uintmax_t from = std::filesystem::file_size(part);
  Target target{file.get(), most_bytes - std::int64_t(from)};
  const Outcome outcome = append(url, target, from);
  if (std::fflush(file.get()) != 0) throw FileError(part, "cannot be written", errno);
  if (outcome.code == CURLE_OK) return "";
  constexpr long kRangeNotSatisfiable = 416;  // the server has nothing beyond what is here
  const bool too_long = target.left < 0,
             refused = outcome.code == CURLE_RANGE_ERROR || outcome.status == kRangeNotSatisfiable;
  if (too_long || refused || std::filesystem::file_size(part) == 0) std::filesystem::remove(part);
  return too_long ? fmt::format("has more than {} bytes", most_bytes) : outcome.text;
}

}  // namespace foldgrad
