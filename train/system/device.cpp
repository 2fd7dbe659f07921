#include "train/system/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/system/streams.h"

namespace foldgrad {
namespace {

const char* kind_of_cuda() { return cuda_is_emulated() ? "emulated" : "cuda"; }

Device automatic() {
  if (cuda_is_emulated()) return Device::cpu;
  const AutomaticDevice found = automatic_device(cuda_devices(), cuda_trouble);
  if (!found.trouble.empty()) say("warning: computing on the CPU, since the GPU cannot be used: {}\n", found.trouble);
  if (!found.index) return Device::cpu;
  use_cuda_device(*found.index);
  return Device::cuda;
}

}  // namespace

std::optional<DeviceName> parse_device(const std::string& text) {
  DeviceName name{text.substr(0, text.find(':'))};
  const bool known = name.kind == "auto" || name.kind == "cpu" || name.kind == "cuda" || name.kind == "emulated";
  if (!known) return std::nullopt;
  if (name.kind == text) return name;
  const std::string number = text.substr(name.kind.size() + 1);
  const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (name.kind == "auto" || name.kind == "cpu" || !digits || number.empty() || number.size() > 4) return std::nullopt;
  name.index = std::stoi(number);
  return name;
}

AutomaticDevice automatic_device(int devices, const std::function<std::string(int)>& trouble) {
  AutomaticDevice found;
  for (int i = 0; i < devices; ++i) {
    const std::string wrong = trouble(i);
    if (wrong.empty()) return {.index = i, .trouble = ""};
    if (found.trouble.empty()) found.trouble = wrong;
  }
  return found;
}

Device require_device(const std::string& text) {
  const std::optional<DeviceName> name = parse_device(text);
  if (!name) throw DeviceError(fmt::format("--device {}: must be auto, cpu, cuda, cuda:N or emulated", text));
  if (name->kind == "cpu") return Device::cpu;
  if (name->kind == "auto") return automatic();
  if (name->kind != kind_of_cuda())
    throw DeviceError(fmt::format("--device {}: not available; CUDA: {}", text, cuda_description()));
  if (const std::string trouble = cuda_trouble(name->index); !trouble.empty())
    throw DeviceError(fmt::format("--device {}: {}", text, trouble));
  use_cuda_device(name->index);
  return Device::cuda;
}

std::string name_of_chosen(Device device) {
  if (device == Device::cpu) return "cpu";
  return cuda_device() == 0 ? kind_of_cuda() : fmt::format("{}:{}", kind_of_cuda(), cuda_device());
}

}  // namespace foldgrad
