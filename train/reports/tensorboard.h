// Runs in TensorBoard's format: an event file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h), each
// a protobuf message Event (tensorflow/core/util/event.proto) with a Summary of scalars
// (tensorflow/core/framework/summary.proto). Only six of their fields are needed, and are encoded here.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "train/reports/run_log.h"

namespace foldgrad {

// Returns the bytes of an event file. Scalars, as f32:
//   train/KEY, validate/KEY  every number of these events
//   gradient_norm/LAYER, KEY/SITE  those of the events "layers", except the count of iterations
// `begin`: start of the run, in seconds since 1970; the log has the seconds that each event took.
std::string tensorboard_events(const RunLog& log, double begin);

// Writes DIRECTORY/NAME/events.out.tfevents.foldgrad, and returns its path; replaces an existing one. Throws FileError.
std::string write_tensorboard(const RunLog& log, const std::string& directory);

// Returns CRC-32C (Castagnoli), RFC 3720, B.4.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace foldgrad
