// Choices about the graph of a network (PassOptions) in logs of records, so that what tuning chose
// is found by later builds.
//
//   PassChoice choice = choose_passes(net, 20, clock);
//   record_passes(net.with_passes(choice.options), "net.onnx", choice.times.best_seconds, "net.jsonl");
//   HEDDLE_LOG_FILE=net.jsonl: Network(outputs) has these choices from then on
#pragma once

#include <optional>
#include <string>

#include "heddle/network/network.h"
#include "heddle/records/record.h"

namespace heddle {

/// Appends the choices of the network to a log of records: Network::pass_options(), for its
/// declaration and target. `subject` is for readers; `seconds` is the time of a call. A Network of
/// the same declaration and target that is made with the usual PassOptions finds them where that
/// log is searched (records/tophub.h). Throws a Runtime error where the log cannot be written.
void record_passes(const Network& network, const std::string& subject, double seconds,
                   const std::string& log);

/// The choices in a record of record_passes, as parse_passes reads them; null for other records.
const std::string* passes_in(const Record& record);

}  // namespace heddle
