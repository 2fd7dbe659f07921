#include "train/reports/tensorboard.h"

#include <bit>
#include <chrono>
#include <filesystem>

#include "engine/files/atomic_file.h"
#include "engine/files/wire_format.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

std::string scalar(const std::string& tag, double value) {
  return wire::field(1, wire::field(1, tag) + wire::number(2, float(value)));
}

std::string event(double time, std::int64_t step, const std::string& summary) {
  return wire::number(1, time) + wire::number(2, step) + wire::field(5, summary);
}

// Returns length and content, each with a checksum, masked since content may itself contain checksums.
std::string record(const std::string& content) {
  const auto checksum = [](const std::string& bytes) {
    return wire::bytes_of(std::rotr(crc32c(bytes), 15) + 0xa282ead8u);
  };
  const std::string length = wire::bytes_of(std::uint64_t(content.size()));
  return length + checksum(length) + content + checksum(content);
}

std::string scalars_of(const ordered_json& e) {
  const std::string kind = e.at("event");
  std::string summary;
  const auto add = [&](const std::string& tag, const ordered_json& value) {
    if (value.is_number()) summary += scalar(tag, value);
  };
  if (kind == "train" || kind == "validate")
    for (const auto& [name, value] : e.items())
      if (name != "step") add(kind + "/" + name, value);
  if (kind != "layers") return summary;
  for (const auto& [layer, norm] : e.at("gradient_norms").items()) add("gradient_norm/" + layer, norm);
  for (const auto& [site, values] : e.at("normalizers").items())
    for (const auto& [name, value] : values.items())
      if (name != "iterations") add(name + "/" + site, value);
  return summary;
}

// Returns the time of the last write to the log, less the run's duration.
double begin_of(const RunLog& log) {
  const auto written = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(RunDirectory(log.path).log()));
  return std::chrono::duration<double>(written.time_since_epoch()).count() - summary_of(log).seconds;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= std::uint8_t(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

std::string tensorboard_events(const RunLog& log, double begin) {
  std::string file = record(wire::number(1, begin) + wire::field(3, "brain.Event:2"));
  double time = begin;
  for (const ordered_json& e : log.events) {
    time += number(e, "seconds");
    const std::string summary = scalars_of(e);
    if (!summary.empty()) file += record(event(time, e.at("step"), summary));
  }
  return file;
}

std::string write_tensorboard(const RunLog& log, const std::string& directory) {
  const std::string run = directory + "/" + log.name, path = run + "/events.out.tfevents.foldgrad";
  make_directories(run);
  write_file_atomically(path, tensorboard_events(log, begin_of(log)));
  return path;
}

}  // namespace foldgrad
