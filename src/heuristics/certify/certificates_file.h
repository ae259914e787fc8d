// The file of the certificates of a chip, <kind>-<chip>.certificates: a tree of shares for each heuristic.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/target/target.h"
#include "heuristics/certify/share_tree.h"

namespace heddle::learning {

struct Certificates {
  std::string kind = {}, target = {}, date = {};  ///< `target`: what was measured, as text
  std::vector<ShareTree> classes = {};
  std::string source = {}, file = {};  ///< of what was found

  /// The class of a heuristic in its present version and with its features; null where there is none.
  const ShareTree* find(std::string_view heuristic) const;
};

/// Throws a User error for a file that cannot be used, a Runtime error where it cannot be read.
Certificates read_certificates(const std::string& path, const std::string& kind);
/// The old file stays until the new one is complete. Without classes it is removed.
void write_certificates(const std::string& path, const Certificates& certificates);

/// Those of the chip or, where it has none, of the nearest one; null where there are none. A file that cannot be used
/// counts as none and is logged (HEDDLE_LOG=heuristics).
std::shared_ptr<const Certificates> find_certificates(const Target& target);

/// How well the certificates of a file hold; none where there is no file.
CertificateCalibration certificates_of_file(const std::string& path, const std::string& kind);

inline constexpr const char* kCertificatesEnding = ".certificates";

}  // namespace heddle::learning
