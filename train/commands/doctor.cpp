// foldgrad doctor: shows the features of this machine and of the build.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/device.h"
#include "engine/parallel/device_link.h"
#include "train/commands/command.h"
#include "train/data/data_sets.h"
#include "train/runs/directory.h"
#include "train/system/launcher.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/translation/sentence_piece.h"

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
  const int processors = int(std::thread::hardware_concurrency()), quota = processor_quota();
  all["processors"] = processors;
  if (quota < processors) all["processor_quota"] = quota;
  all["waiting"] = threads() <= std::min(processors, quota)
                       ? "spins for 0.5 ms, then sleeps"
                       : "sleeps at once, since there are more threads than processors";
  int autogroup = 0;
  if (std::ifstream("/proc/sys/kernel/sched_autogroup_enabled") >> autogroup) all["autogroup"] = autogroup != 0;
  all["memory_mib"] = sysconf(_SC_PHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) / 1024;
  all["cuda_usable"] = cuda_available() && !cuda_is_emulated();
  const auto usable = [](const std::string& trouble) { return trouble.empty() ? "usable" : trouble; };
  all["mpi"] = usable(mpi_trouble());
  all["torchrun"] = usable(zmq_trouble());
  all["nccl"] = usable(nccl_trouble());
  all["started_as"] = describe(find_launch());
  all["sentencepiece"] = sentence_piece_available();
  all["png"] = png_available();
  all["jpeg"] = jpeg_available();
  all["data_directory"] = describe_directory(data_root(""));
  all["current_directory"] = describe_directory(".");
  return all;
}

std::string shown(const ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_object()) return value.is_string() ? value.get<std::string>() : value.dump();
  return shown(value["path"]) + (!value["exists"] ? " (does not exist)" : value["writable"] ? "" : " (not writable)");
}

std::string lines_of(const ordered_json& all) {
  std::string text;
  for (const auto& [key, value] : all.items())
    text += key == "libraries" ? lines_of(value) : fmt::format("{:<18} {}\n", key, shown(value));
  return text;
}

}  // namespace

Action add_doctor(CLI::App& command, const BuildInfo& build) {
  add_json_option(command);
  return [build] {
    const ordered_json all = examine(build);
    return Answer{lines_of(all), all};
  };
}

}  // namespace foldgrad
