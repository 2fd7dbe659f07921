// foldgrad doctor: what this machine can do.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <thread>

#include "engine/device.h"
#include "models/onnx/graph.h"
#include "train/commands/commands.h"
#include "train/data/data_root.h"
#include "train/data/images/picture.h"
#include "train/data/text/sentence_piece.h"
#include "train/runs/directory.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

ordered_json describe_directory(const std::string& path) {
  std::error_code ignored;
  const bool exists = std::filesystem::is_directory(path, ignored);
  return {{"path", path}, {"exists", exists}, {"writable", exists && access(path.c_str(), W_OK) == 0}};
}

ordered_json examine(const BuildInfo& build) {
  ordered_json all = describe_environment(build, 0, {});
  for (const char* of_a_run : {"seed", "data"}) all.erase(of_a_run);
  all["processors"] = std::thread::hardware_concurrency();
  all["memory_mib"] = sysconf(_SC_PHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) / 1024;
  all["cuda_usable"] = cuda_available() && !cuda_is_emulated();
  all["sentencepiece"] = sentence_piece_available();
  all["png"] = png_available();
  all["jpeg"] = jpeg_available();
  all["onnx"] = onnx_available();
  all["data_directory"] = describe_directory(data_root(""));
  all["current_directory"] = describe_directory(".");
  return all;
}

std::string shown(const ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print(const ordered_json& all) {
  for (const auto& [key, value] : all.items()) {
    if (key == "libraries") {
      for (const auto& [library, version] : value.items()) fmt::print("{:<18} {}\n", library, shown(version));
    } else if (value.is_object()) {
      fmt::print("{:<18} {}{}\n", key, shown(value["path"]),
                 !value["exists"]    ? " (does not exist)"
                 : value["writable"] ? ""
                                     : " (not writable)");
    } else {
      fmt::print("{:<18} {}\n", key, shown(value));
    }
  }
}

}  // namespace

Action add_doctor(CLI::App& command, const BuildInfo& build) {
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print JSON");
  return [json, build] {
    const ordered_json all = examine(build);
    *json ? print_json(all) : print(all);
    return kExitOk;
  };
}

}  // namespace foldgrad
