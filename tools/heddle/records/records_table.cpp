#include "records/records_table.h"

#include "common/figures.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

std::string rate_text(const Record& r) {
  return r.ok() && r.flops > 0 ? format_fixed(r.flops / r.median() * 1e-9, 2) : "";
}

}  // namespace

std::string records_table(const std::vector<Record>& records) {
  Table table({"subject", "time", "GFLOP/s", "result", "target", "template", "verdict", "protocol",
               "date", "from"});
  for (size_t column = 3; column < 10; ++column) table.align_left(column);
  for (const Record& r : records) {
    table.add_row({r.subject.empty() ? "(unnamed)" : r.subject,
                   r.ok() ? format_time(r.median()) : "", rate_text(r),
                   r.ok() ? "ok" : to_string(r.error), to_string(r.target),
                   r.template_name + (r.alternative.empty() ? "" : " of " + r.alternative),
                   to_string(r.verdict), r.protocol, date_text(r.unix_time), r.origin});
  }
  return table.to_string();
}

}  // namespace heddle::cli
