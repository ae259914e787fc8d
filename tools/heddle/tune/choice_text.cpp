#include "tune/choice_text.h"

#include <algorithm>
#include <cmath>

#include "common/figures.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

// The end of the table: what the race of all that was taken proved.
std::string decision_text(const PassChoice& choice) {
  const NetworkTimes& t = choice.times;
  if (t.verdict == RaceResult::Faster) {
    return "together: a call takes " + format_time(t.best_seconds) + " in place of " +
           format_time(t.static_seconds) + "; recorded, as --passes " + to_string(choice.options) +
           "\n";
  }
  if (t.changed > 0) return "together they did not prove a gain: the network stays as it is\n";
  return "none was proven to gain: the network stays as it is\n";
}

}  // namespace

std::string choices_text(const PassChoice& choice) {
  if (choice.trials.empty()) return "";
  Table table({"  choice about the network", "places", "estimate", "from", "to", "gain", "result"});
  table.align_left(6);
  int untried = 0;
  for (const ChoiceTrial& t : choice.trials) {
    if (t.verdict == TrialResult::NoTime) {
      ++untried;
      continue;
    }
    const std::string estimate =
        (t.estimated_gain < 0 ? "-" : "+") + format_time(std::abs(t.estimated_gain));
    if (t.before <= 0) {
      table.add_row(
          {"  " + t.change, std::to_string(t.places), estimate, "", "", "", to_string(t.verdict)});
      continue;
    }
    table.add_row({"  " + t.change, std::to_string(t.places), estimate, format_time(t.before),
                   format_time(t.after), format_fixed(t.before / t.after, 3),
                   to_string(t.verdict)});
  }
  std::string text = table.to_string();
  if (untried > 0) text += "  for " + std::to_string(untried) + " more there was no time\n";
  return text + "  " + decision_text(choice);
}

Json choices_json(const PassChoice& choice) {
  Json list = Json::array();
  for (const ChoiceTrial& t : choice.trials) {
    list.push_back(Json::object({{"change", t.change},
                                 {"text", t.text},
                                 {"places", t.places},
                                 {"estimated_gain", t.estimated_gain},
                                 {"before", t.before},
                                 {"after", t.after},
                                 {"whole_before", t.whole_before},
                                 {"whole_after", t.whole_after},
                                 {"verdict", to_string(t.verdict)}}));
  }
  return Json::object({{"passes", to_string(choice.options)},
                       {"static_seconds", choice.times.static_seconds},
                       {"best_seconds", choice.times.best_seconds},
                       {"verdict", to_string(choice.times.verdict)},
                       {"tried", std::move(list)}});
}

}  // namespace heddle::cli
