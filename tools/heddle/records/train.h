// A cost model from logs of measurements.
#pragma once

#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle::cli {

/// Trains on three of four records of every declaration, prints how well the model ranks the
/// fourth, then trains on all and writes the model. Throws a User error where there are no records
/// to train on.
void train_model(const std::vector<Record>& records, const std::string& path);

}  // namespace heddle::cli
