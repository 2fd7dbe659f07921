#include "train/run_directory.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>

#include "engine/atomic_file.h"
#include "train/checkpoint_files.h"

namespace foldgrad {
namespace {

std::string quoted_for_shell(const std::string& argument) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || (c && std::strchr("-_=./:,+@%", c)); };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) line += (line.empty() ? "" : " ") + quoted_for_shell(argument);
  return line + "\n";
}

}  // namespace

std::string RunDirectory::sample(std::int64_t step) const {
  return samples() + "/" + checkpoint_files::step_name(step) + ".txt";
}

bool RunDirectory::has_run() const {
  std::error_code ignored;
  return std::filesystem::exists(config(), ignored);
}

void RunDirectory::write(const std::string& config_text, const std::string& commands,
                         const nlohmann::ordered_json& environment) const {
  write_file_atomically(command(), commands);
  write_file_atomically(this->environment(),
                        environment.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  write_file_atomically(config(), config_text);
}

void RunDirectory::create(const std::string& config_text, const std::vector<std::string>& arguments,
                          const nlohmann::ordered_json& environment) const {
  if (has_run()) throw FileError(path_, "a run is there already; --resume goes on with it");
  std::error_code error;
  for (const std::string& directory : {checkpoints(), samples()}) {
    std::filesystem::create_directories(directory, error);
    if (error) throw FileError(directory, "cannot be created", error.value());
  }
  sync_directory(path_);
  write(config_text, command_line(arguments), environment);
}

void RunDirectory::resume(const std::string& config_text, const std::vector<std::string>& arguments,
                          const nlohmann::ordered_json& environment) const {
  const InputFile file(command());
  std::string commands(file.size(), '\0');
  file.read(0, commands.data(), commands.size());
  write(config_text, commands + command_line(arguments), environment);
}

}  // namespace foldgrad
