#include "train/runs/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <unistd.h>
#ifdef FOLDGRAD_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
#include <cblas.h>
#endif

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/cpu/support.h"
#include "engine/cpu/threads.h"
#include "engine/device.h"
#include "engine/files/atomic_file.h"
#include "train/checkpoints/checkpoint.h"
#include "train/system/json_file.h"
#include "train/system/launcher.h"

namespace foldgrad {
namespace {

std::string quoted_for_shell(const std::string& argument) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || (c && std::strchr("-_=./:,+@%", c)); };
  if (!argument.empty() && std::ranges::all_of(argument, plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Removes files that AtomicFile had not yet renamed.
void remove_unfinished(const std::string& directory) {
  std::error_code ignored;
  for (const auto& path : paths_in(directory, /*optional=*/true))
    if (path.extension() == ".part") std::filesystem::remove(path, ignored);
}

}  // namespace

std::string command_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) line += (line.empty() ? "" : " ") + quoted_for_shell(argument);
  return line;
}

std::string RunDirectory::sample(std::int64_t step) const {
  return samples() + "/" + checkpoint_files::step_name(step) + ".txt";
}

nlohmann::json RunDirectory::described() const {
  if (!file_exists(environment())) return nlohmann::json::object();
  nlohmann::json all = read_json(environment());
  if (!all.is_object()) throw FileError(environment(), "must be an object, got " + shown(all));
  return all;
}

std::string RunDirectory::data_root() const {
  const nlohmann::json root = described()["data_root"];
  if (root.is_null()) return "";
  if (!root.is_string()) throw FileError(environment(), "\"data_root\" must be text, got " + shown(root));
  std::error_code ignored;
  return std::filesystem::is_directory(std::string(root), ignored) ? std::string(root) : "";
}

bool RunDirectory::has_run() const {
  return file_exists(config()) || !checkpoint_files::steps_in(checkpoints()).empty();
}

void RunDirectory::require_no_run() const {
  if (has_run())
    throw FileError(path_, "already holds a run; continue it with --resume, or choose another directory with --out");
}

void RunDirectory::begin(const std::string& config_text, const std::vector<std::string>& arguments,
                         const nlohmann::ordered_json& environment) const {
  for (const std::string& directory : {checkpoints(), samples()}) make_directories(directory);
  sync_directory(path_);
  for (const std::string& directory : {path_, samples(), statistics(), checkpoints()}) remove_unfinished(directory);
  const std::string before = file_exists(command()) ? read_file(command()) : "";
  write_file_atomically(command(), before + command_line(arguments) + "\n");
  write_file_atomically(this->environment(),
                        environment.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  write_file_atomically(config(), config_text);
}

RunLock::RunLock(const std::string& run) {
  make_directories(run);
  const std::string path = run + "/lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw FileError(path, "cannot be opened", errno);
  // If the file system does not support locks, errno is not EWOULDBLOCK, and the run is not locked.
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    char holder[512] = "";
    const ssize_t length = pread(descriptor_, holder, sizeof holder, 0);
    close(descriptor_);
    throw FileError(run, length > 0 ? "is being trained by " + std::string(holder, std::size_t(length))
                                    : "is being trained by another process");
  }
  // This text is needed only for the message above, so a full disk does not matter.
  const std::string holder = fmt::format("process {} on {}", getpid(), host_name());
  if (ftruncate(descriptor_, 0) == 0) (void)!pwrite(descriptor_, holder.data(), holder.size(), 0);
}

RunLock::~RunLock() { close(descriptor_); }

nlohmann::ordered_json describe_environment(const BuildInfo& build, std::int64_t seed,
                                            const std::map<std::string, std::string>& data_digests) {
  nlohmann::ordered_json e{{"version", build.version}, {"commit", build.commit},      {"compiler", build.compiler},
                           {"flags", build.flags},     {"instructions", cpu_level()}, {"cpu", cpu_model()},
                           {"threads", threads()},     {"cuda", cuda_description()},  {"seed", seed}};
  auto& libraries = e["libraries"];
  libraries["fmt"] = fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION % 10000 / 100, FMT_VERSION % 100);
  libraries["nlohmann_json"] =
      fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
  libraries["openssl"] = OpenSSL_version(OPENSSL_VERSION);
#ifdef FOLDGRAD_HAVE_ONEDNN
  const dnnl_version_t* dnnl = dnnl_version();
  libraries["onednn"] = fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch);
#endif
#ifdef FOLDGRAD_HAVE_CBLAS
  libraries["openblas"] = openblas_get_config();
#endif
  e["data"] = data_digests;
  return e;
}

}  // namespace foldgrad
