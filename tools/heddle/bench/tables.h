// Results as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "bench/bench_case.h"
#include "common/machine.h"
#include "heddle/support/json.h"

namespace heddle::cli {

/// "f32, 2 threads"
std::string type_and_threads(DataType dtype, int threads);

/// A heading, and a row for each implementation.
std::string case_table(const CaseResult& result, Machine& machine);
/// A row for each result: Heddle against the best of the others.
std::string summary_table(const std::vector<CaseResult>& results, Machine& machine);
/// {"subject", "dtype", "threads", "flops", "bytes", "times_ms": {...}}
Json to_json(const CaseResult& result);

}  // namespace heddle::cli
