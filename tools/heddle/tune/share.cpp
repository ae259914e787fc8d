#include "tune/share.h"

#include "heddle/support/error.h"
#include "options/value_form.h"

namespace heddle::cli {

double parse_share(const std::string& text) {
  const bool has_sign = text.ends_with('%');
  const std::optional<double> percent =
      has_sign ? as_number(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!percent || !(*percent > 0 && *percent < 100))
    throw_user_error("'" + text + "' is no share of the time", {},
                     "write a percentage above 0 % and below 100 %, such as 5%");
  return *percent / 100;
}

}  // namespace heddle::cli
