// The certificates that a run of learning writes.
#pragma once

#include <string>
#include <vector>

#include "heddle/heuristics/dataset.h"
#include "heddle/target/target.h"
#include "heuristics/certify/certificates_file.h"
#include "heuristics/learn/calibrate.h"
#include "heuristics/train/evaluate.h"

namespace heddle::learning {

class LearnedCertificates {
 public:
  /// Goes on from the file, where it is one: classes that this run does not learn about stay.
  LearnedCertificates(const Target& target, std::string path, std::string date);
  /// Takes what the answers of held-out problems came to as the evidence of a heuristic: those of trees where a tree
  /// answers from now on, else those of the rule. `races` know the least times. Too few problems say nothing.
  void add(const HeuristicData& data, const TreeEvaluation& held_out, bool tree_answers,
           const std::vector<CalibrationRace>& races);
  void write() const { write_certificates(path_, certificates_); }

 private:
  Certificates certificates_;
  std::string path_;
};

}  // namespace heddle::learning
