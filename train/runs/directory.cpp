#include "train/runs/directory.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

#include "engine/files/atomic_file.h"
#include "train/checkpoints/files.h"

namespace foldgrad {
namespace {

std::string quoted_for_shell(const std::string& argument) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || (c && std::strchr("-_=./:,+@%", c)); };
  if (!argument.empty() && std::ranges::all_of(argument, plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) line += (line.empty() ? "" : " ") + quoted_for_shell(argument);
  return line + "\n";
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Removes the files that AtomicFile had not renamed yet.
void remove_unfinished(const std::string& directory) {
  std::vector<std::filesystem::path> unfinished;
  std::error_code ignored;
  for (std::filesystem::directory_iterator it(directory, ignored), end; it != end; it.increment(ignored))
    if (it->path().extension() == ".part") unfinished.push_back(it->path());
  for (const std::filesystem::path& path : unfinished) std::filesystem::remove(path, ignored);
}

}  // namespace

std::string RunDirectory::sample(std::int64_t step) const {
  return samples() + "/" + checkpoint_files::step_name(step) + ".txt";
}

bool RunDirectory::has_run() const { return exists(config()) || !checkpoint_files::steps_in(checkpoints()).empty(); }

void RunDirectory::require_no_run() const {
  if (has_run()) throw FileError(path_, "there is a run already; continue it with --resume");
}

void RunDirectory::begin(const std::string& config_text, const std::vector<std::string>& arguments,
                         const nlohmann::ordered_json& environment) const {
  for (const std::string& directory : {checkpoints(), samples()}) make_directories(directory);
  sync_directory(path_);
  for (const std::string& directory : {path_, samples(), statistics(), checkpoints()}) remove_unfinished(directory);
  const std::string before = exists(command()) ? read_file(command()) : "";
  write_file_atomically(command(), before + command_line(arguments));
  write_file_atomically(this->environment(),
                        environment.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  write_file_atomically(config(), config_text);
}

}  // namespace foldgrad
