// Helpers of the tests of records: a temporary folder, small declarations, and synthetic records
// for them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "environment.h"
#include "heddle/heddle.h"
#include "heddle/ops/ops.h"
#include "support/files/file.h"

namespace heddle::testing {

/// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "heddle_records_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw_runtime_error("no temporary folder");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Target test_target(int threads = 2) {
  return Target::parse("llvm -mcpu=haswell -threads=" + std::to_string(threads));
}

inline Tensor matmul(int64_t m, int64_t n, int64_t k) {
  return ops::matmul(placeholder({m, k}), placeholder({k, n}));
}

/// A legal config that is not the static choice.
inline Config other_config(const Template& t) {
  const Config standard = t.default_config();
  for (size_t k = 0; k < t.knobs().size(); ++k) {
    for (const int64_t value : t.knobs()[k].values) {
      Config c = standard;
      c.values[k] = value;
      if (value != standard.values[k] && t.why_invalid(c).empty()) return c;
    }
  }
  throw_internal_error("no other config");
}

/// As if it had been measured.
inline Record record_of(const Tensor& output, const Target& target, double seconds = 1e-3,
                        const std::string& subject = "matmul") {
  const Template t = make_template(ComputeDag({output}), target);
  Record r = make_record(subject, t, other_config(t));
  r.seconds = {seconds, seconds * 1.1, seconds * 0.9};
  r.protocol = "warm repeats=3";
  r.compile_seconds = 0.0125;
  r.measure_seconds = 0.5;
  r.seed = 0xfedcba9876543210;
  return r;
}

inline Record failed(Record r, MeasureError error) {
  r.error = error;
  r.seconds.clear();
  r.message = "signal 11 (\"SIGSEGV\")";
  return r;
}

inline void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    std::string kind = e.kind == ErrorKind::Internal  ? "INTERNAL "
                       : e.kind == ErrorKind::Runtime ? "RUNTIME "
                                                      : "";
    return kind + e.message + (e.help.empty() ? "" : "\n  help: " + e.help);
  }
  return "no error";
}

}  // namespace heddle::testing
