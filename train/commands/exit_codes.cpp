#include "train/commands/exit_codes.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>
#include <system_error>

#include "engine/files/file.h"
#include "engine/memory.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checks/finite.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/system/device.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

int refuse(const std::string& what, ExitCode code) {
  say("error: {}\n", what);
  return code;
}

}  // namespace

int guarded(const std::function<int()>& command) try { return command(); } catch (const Diverged& e) {
  return refuse(fmt::format("diverged: {}", e.what()), kExitDiverged);
} catch (const NonFiniteError& e) {
  return refuse(e.what(), kExitDiverged);
} catch (const ConfigError& e) {
  return refuse(e.what(), kExitUsage);
} catch (const std::invalid_argument& e) {  // keys that do not go together, sentences that do not fit the sizes
  return refuse(e.what(), kExitUsage);
} catch (const CheckpointError& e) {
  return refuse(e.what(), kExitCheckpoint);
} catch (const FileError& e) {
  return refuse(e.what(), kExitData);
} catch (const DeviceError& e) {
  return refuse(e.what(), kExitDevice);
} catch (const OutOfMemory& e) {
  return refuse(e.what(), kExitDevice);
} catch (const std::bad_alloc&) {
  return refuse("memory is used up", kExitDevice);
} catch (const std::system_error& e) {
  if (!std::ferror(stdout)) return refuse(e.what(), kExitCheckFailed);
  return refuse(stdout_error(e.code().value()), kExitData);  // from fmt::print
} catch (const std::exception& e) {
  return refuse(e.what(), kExitCheckFailed);
}

}  // namespace foldgrad
