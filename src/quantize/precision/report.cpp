// What a user reads of a choice of types.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "heddle/quantize/precision.h"
#include "support/table.h"

namespace heddle {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string gain_text(double seconds) {
  return (seconds < 0 ? "-" : "") + format_time(std::abs(seconds));
}

const char* outcome_name(PrecisionOutcome outcome) {
  switch (outcome) {
    case PrecisionOutcome::Some: return "some";
    case PrecisionOutcome::NoProducts: return "no_products";
    case PrecisionOutcome::NoTypes: return "no_types";
    case PrecisionOutcome::NoTime: return "no_time";
    case PrecisionOutcome::NoGain: return "no_gain";
    case PrecisionOutcome::TooInexact: return "too_inexact";
    case PrecisionOutcome::NotFaster: return "not_faster";
  }
  return "";
}

std::string why_none(PrecisionOutcome outcome) {
  switch (outcome) {
    case PrecisionOutcome::Some: break;
    case PrecisionOutcome::NoProducts: return "the network has no products of f32";
    case PrecisionOutcome::NoTypes:
      return "the target has no instructions for products of shorter numbers";
    case PrecisionOutcome::NoTime: return "the time was over before types were found";
    case PrecisionOutcome::NoGain: return "no product is faster in a shorter type";
    case PrecisionOutcome::TooInexact:
      return "no shorter type keeps the outputs within the tolerance";
    case PrecisionOutcome::NotFaster:
      return "the network with what the tolerance allows was not proven to be faster";
  }
  return "";
}

/// "tolerance 0.01, on 4 drawn calls to choose and 4 to decide"
std::string first_line(const PrecisionChoice& choice) {
  const int decide = choice.calls / 2;
  return "tolerance " + number(choice.options.tolerance) + ": " +
         std::to_string(choice.calls - decide) + " calls choose, and " + std::to_string(decide) +
         " others decide, on " +
         (choice.drawn ? "random inputs, because no data are given" : "the data") + "\n";
}

std::string sum_line(const PrecisionChoice& choice) {
  if (choice.all_error == 0) return "";
  return "all that gain together: error " + number(choice.all_error) +
         "; the errors alone add up to " + number(choice.all_linear) +
         ", their squares to that of " + number(choice.all_squares) + "\n";
}

std::string last_line(const PrecisionChoice& choice) {
  if (choice.outcome != PrecisionOutcome::Some)
    return "all stays in f32: " + why_none(choice.outcome) + "\n";
  return std::to_string(choice.options.types.size()) + " of " + std::to_string(choice.products) +
         " products are of shorter numbers: error " + number(choice.error) + ", a call takes " +
         format_time(choice.seconds) + " in place of " + format_time(choice.f32_seconds) +
         (choice.measured ? "" : " (estimates)") + "\n";
}

}  // namespace

const char* to_string(PrecisionVerdict verdict) {
  switch (verdict) {
    case PrecisionVerdict::NoTime: return "not measured";
    case PrecisionVerdict::CannotBuild: return "cannot be built";
    case PrecisionVerdict::NoGain: return "not faster";
    case PrecisionVerdict::TooInexact: return "left";
    case PrecisionVerdict::Replaced: return "another type";
    case PrecisionVerdict::Taken: return "taken";
  }
  return "";
}

std::string PrecisionChoice::to_string() const {
  std::string text = first_line(*this);
  if (!trials.empty()) {
    Table table({"product", "type", "error alone", "gain", ""});
    for (const size_t left : {0, 1, 4}) table.align_left(left);
    for (const PrecisionTrial& t : trials) {
      const bool tried =
          t.verdict != PrecisionVerdict::NoTime && t.verdict != PrecisionVerdict::CannotBuild;
      table.add_row({t.product.substr(t.product.find('@') + 1),
                     t.type.tf32 ? "tf32" : heddle::to_string(t.type.type),
                     tried ? number(t.error) : "", tried ? gain_text(t.gain) : "",
                     heddle::to_string(t.verdict)});
    }
    text += table.to_string();
  }
  return text + sum_line(*this) + last_line(*this);
}

Json PrecisionChoice::to_json() const {
  Json list = Json::array();
  for (const PrecisionTrial& t : trials)
    list.push_back(Json::object({{"product", t.product},
                                 {"type", heddle::to_string(t.type)},
                                 {"error", t.error},
                                 {"gain_seconds", t.gain},
                                 {"verdict", heddle::to_string(t.verdict)}}));
  return Json::object({{"tolerance", options.tolerance},
                       {"outcome", outcome_name(outcome)},
                       {"error", error},
                       {"f32_seconds", f32_seconds},
                       {"seconds", seconds},
                       {"measured", measured},
                       {"drawn", drawn},
                       {"calls", calls},
                       {"products", products},
                       {"all_error", all_error},
                       {"all_linear", all_linear},
                       {"all_squares", all_squares},
                       {"passes", heddle::to_string(options)},
                       {"trials", list}});
}

}  // namespace heddle
