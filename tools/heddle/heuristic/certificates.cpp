// heddle heuristic certificates: how well they hold on problems that were held out.
#include <iostream>

#include "commands.h"
#include "common/output_file.h"
#include "heddle/heuristics/certificate.h"
#include "heddle/support/error.h"
#include "report/log_data.h"
#include "report/sections.h"
#include "subjects/target_text.h"
#include "support/files/file.h"

namespace heddle::cli {

int show_certificates(const Request& request) {
  const Target target = target_of(request.target, request.threads);
  const CertificateCalibration found = certificate_calibration(target);
  if (!request.output.empty()) {
    if (found.file.empty())
      throw_user_error("there are no certificates for " + to_string(target), {},
                       "`heddle learn` writes them");
    check_writable(request.output);
    LogData data;
    data.files = {found.file};
    data.certificates = found;
    write_file_atomic(request.output, report_page(data, {}));
  }
  if (request.json) {
    std::cout << found.to_json().dump(1) << "\n";
  } else {
    std::cout << found.to_string();
  }
  return 0;
}

}  // namespace heddle::cli
