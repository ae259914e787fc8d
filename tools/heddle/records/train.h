// A cost model from logs of measurements.
#pragma once

#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle::cli {

/// Trains on three of four records of every declaration, prints how well the model orders the
/// fourth, then trains on all and writes the model. A User error where there is nothing to learn.
void train_model(const std::vector<Record>& records, const std::string& path);

}  // namespace heddle::cli
