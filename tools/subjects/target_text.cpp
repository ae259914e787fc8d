#include "subjects/target_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "heddle/support/error.h"
#include "subjects/arguments.h"
#include "support/edit_distance.h"

namespace heddle::cli {

Target target_of(const std::string& text, int threads) {
  Target target = Target::parse(text);
  if (threads > 0) target.cores = threads;
  return target;
}

DataType dtype_of(const std::string& name) {
  const std::vector<std::string> known = {"f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2",
                                          "i8",  "i16", "i32", "i64",  "u8",     "bool"};
  const std::optional<DataType> dtype = parse_dtype(name);
  if (dtype && std::find(known.begin(), known.end(), name) != known.end()) return *dtype;
  std::string hint = did_you_mean(name, known);
  if (!hint.empty()) hint += " ";
  throw_user_error("there is no type '" + name + "'", {}, hint + "the types are " + join(known));
}

}  // namespace heddle::cli
