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
std::vector<Task> bench_tasks(const Target& target);

/// A measured config; a file of them is a line each: task, values with commas, seconds.
struct Sample {
  std::string task;
  Config config;
  double seconds = 0;
};
std::vector<Sample> read_samples(const std::string& path);

/// Different legal configs, at most `count`.
std::vector<Config> random_configs(const Template& t, int count, uint64_t seed);

int collect(const std::string& path, int per_task);
int evaluate(const std::string& path, const std::vector<std::string>& settings);
int speed();

}  // namespace heddle::bench
