#include <chrono>
#include <thread>

#include "train/commands/command.h"
#include "train/system/launcher.h"
#include "train/system/streams.h"

namespace foldgrad {

Answer launched(std::string& device, const std::function<Answer(Processes*)>& action) {
  const Launch launch = find_launch();
  const std::unique_ptr<Processes> processes = join(launch);
  if (!processes) return action(nullptr);
  device = device_of(launch, device);
  if (launch.rank > 0) begin_lines_with(fmt::format("[process {} on {}] ", launch.rank, host_name()));
  // An error here ends the others, which may wait for this process.
  Answer answer;
  const int code = guarded([&] {
    answer = action(processes.get());
    return answer.exit_code;
  });
  if (code != kExitOk && code != kExitInterrupted) {
    if (launch.rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2));  // so that process 0 can log it
    processes->abort(code);
  }
  return launch.rank == 0 ? answer : Answer{.exit_code = code};
}

}  // namespace foldgrad
