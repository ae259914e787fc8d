// The option --tolerance: products of a model in the types that a bound of the error allows.
#pragma once

#include <optional>
#include <vector>

#include "commands.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/quantize/precision.h"

namespace heddle::cli {

/// The network with the types that choose_precision finds for --tolerance and --data, which it says
/// on standard error unless the options are quiet, and in the file of --types-json; the network as it is where the options have no
/// tolerance, or where its plan has the types for the same one. A User error for --data and
/// --types-json without --tolerance, and for data that do not fit.
Network within_tolerance(const Request& options, const Network& network);

/// The choice of types for a decoder, on the texts of --data, rows of `input_ids`, or on texts that it draws
/// itself; none in the same cases, and the same errors. `network` is of `model`.
std::optional<PrecisionChoice> types_of_decoder(const Request& options, const OnnxModel& model,
                                                const Network& network);

/// The calls of --data for a network; empty where there are no data.
std::vector<std::vector<NDArray>> calls_of_data(const Request& options, const Network& network);

}  // namespace heddle::cli
