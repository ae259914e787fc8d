// Certificates: how good a static choice is, before anything is measured.
//
//   const Certificate c = certify(ComputeDag(outputs), target);
//   c.least_seconds;     // no schedule is faster
//   c.expected_seconds;  // what problems like this one took
//   c.probability;       // that tuning finds nothing that is 5 % faster
//
// The probability is evidence: of the measured problems like this one, the share whose choice was within 5 % of the
// best that was measured. `heddle learn` writes it for each heuristic, from problems on which it judges the answers of
// trees that had not seen them (<kind>-<chip>.certificates, found as trees are). A certificate of several choices, such
// as a graph and a tile, is the product of theirs. Where no problem like this one was measured nothing is said.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/options.h"
#include "heddle/support/json.h"
#include "heddle/target/target.h"

namespace heddle {

/// The share of the best time that a choice may lose and count as within.
inline constexpr double kCertifiedShare = 0.05;

/// Problems of which nearly the same probability was said, by trees that had not seen them.
struct CertificateBin {
  double said = 0;  ///< mean of what was said
  int problems = 0, within = 0;
  double truth() const { return problems > 0 ? static_cast<double>(within) / problems : 0; }
};

/// The certificate of one choice of the static schedule.
struct CertifiedChoice {
  std::string heuristic;
  std::optional<double> probability = {};
  int problems = 0, within = 0;  ///< measured ones that are like this one
  std::string why_not = {};      ///< why nothing is said
};

/// The certificate of the static choice for a declaration. Times are seconds of a call; 0: not known.
struct Certificate {
  double least_seconds = 0, expected_seconds = 0;
  std::optional<double> probability = {};  ///< of being within kCertifiedShare of the best
  std::vector<CertifiedChoice> choices = {};
  std::string source = {};   ///< "certificates llvm-znver5"; empty: there are none
  std::string why_not = {};  ///< why nothing is said

  Json to_json() const;
  std::string to_string() const;  ///< some lines of text
};

/// The certificate of what rules, trees and estimates choose for a graph. A record that answers in their place is not
/// asked for. It makes the choice once more. For a CPU the rates of the machine are measured once, in some tens of
/// milliseconds.
Certificate certify(const ComputeDag& dag, const Target& target,
                    const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// How well the certificates of a target hold on problems that were left out of what says them.
struct CertificateCalibration {
  struct Class {
    std::string heuristic;
    int problems = 0, within = 0;
    std::vector<CertificateBin> bins = {};
  };
  std::string file;  ///< empty: the target has no certificates
  std::vector<Class> classes = {};
  std::vector<CertificateBin> all = {};  ///< of all classes, in tenths, the least first
  /// Mean of |said - true| over the problems of all bins.
  double error() const;
  Json to_json() const;
  std::string to_string() const;  ///< a table
};
/// Reads the file of the target. Throws a User error for an invalid one.
CertificateCalibration certificate_calibration(const Target& target);

}  // namespace heddle
