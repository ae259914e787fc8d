// The sections of the report, as HTML; empty where the log has no data for them.
#pragma once

#include <string>
#include <vector>

#include "report/log_data.h"

namespace heddle::cli {

/// A machine's ceilings for kernels with this number of threads.
struct Roof {
  int threads = 0;  ///< 0: for all
  double gflops = 0, gb_per_second = 0;
};

std::string tasks_section(const LogData& data);    ///< the table of results
std::string network_section(const LogData& data);  ///< overall latency, share of each task
std::string curves_section(const LogData& data);   ///< tuning curves, two a task
std::string roofline_section(const LogData& data, const std::vector<Roof>& roofs);
std::string failures_section(const LogData& data);
std::string model_section(const LogData& data);
std::string configs_section(const LogData& data);  ///< knobs that differ from the static choice
std::string alternatives_section(const LogData& data);  ///< each graph of each task
std::string time_section(const LogData& data);          ///< where tuning's time went
std::string machines_section(const LogData& data);      ///< of a log of several
std::string picks_section(const LogData& data);         ///< what multi-kernels picked

std::string families_section(const LogData& data);  ///< which kernel runs at which sizes

std::string certificates_section(const LogData& data);  ///< what was said, and what was true

std::string audits_section(const LogData& data);  ///< where networks lose time

/// What `heddle audit --json` wrote. Throws a User error for another file.
Json read_audit(const std::string& path);
/// The families of what `heddle tune --json` writes of a subject or a model with ranges. Throws a
/// User error for another file.
std::vector<Json> read_families(const std::string& path);
/// Moves the records of kernels over ranges of sizes out of `records`, and returns the last one of
/// each task.
std::vector<Json> take_families(std::vector<Record>& records);
/// Reads the lines of a log of picks. Lines that cannot be read are listed in `problems`.
std::vector<PickRow> read_picks(const std::string& path, std::vector<std::string>& problems);

/// The whole page.
std::string report_page(const LogData& data, const std::vector<Roof>& roofs);

}  // namespace heddle::cli
