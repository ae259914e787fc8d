// Parts of cost_model_bench.
#pragma once

#include <string>
#include <vector>

#include "heddle/heddle.h"

namespace heddle::bench {

struct Task {
  std::string name;
  std::vector<Tensor> args;  ///< inputs, then outputs
  Template tmpl;
};
/// The target of this machine, with HEDDLE_BENCH_THREADS of its cores where that is set.
Target bench_target();
std::vector<Task> bench_tasks(const Target& target);

/// A measured config. A file has one line for each: task, values separated by commas, seconds.
struct Sample {
  std::string task;
  Config config;
  double seconds = 0;
};
std::vector<Sample> read_samples(const std::string& path);

/// Different legal configs, at most `count`.
std::vector<Config> random_configs(const Template& t, int count, uint64_t seed);

/// The CPU time of this thread in seconds, which other programs do not affect.
double processor_time();

int collect(const std::string& path, int per_task);
int evaluate(const std::string& path, const std::vector<std::string>& settings);

}  // namespace heddle::bench
