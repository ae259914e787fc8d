#include "runtime/dispatch/pick_log.h"

#include "heddle/support/error.h"
#include "support/environment.h"
#include "support/files/line_log.h"
#include "support/log.h"

namespace heddle {

void log_pick(const PickRow& row, const std::string& path,
              const std::function<void(const std::string&)>& say) {
  HEDDLE_LOG_AT("picks", 1,
                row.kernel + " " + row.shapes + ": " + row.picked + ", " + to_string(row.reason) +
                    (row.note.empty() ? "" : " (" + row.note + ")"));
  const std::string file = path.empty() ? internal::environment_value("HEDDLE_PICK_LOG") : path;
  if (file.empty()) return;
  try {
    LineLog(file, "log of picks").append(row.to_json().dump());
  } catch (const Error& e) {
    say(e.message);
  }
}

std::string why_invalid(const PickRow& stored, const std::string& machine,
                        const std::string& build) {
  if (stored.build != build)
    return "the remembered pick is of another build, '" + stored.build + "', and not valid";
  if (stored.machine != machine)
    return "the remembered pick is of another machine, '" + stored.machine + "', and not valid";
  return "";
}

}  // namespace heddle
