#include "heddle/runtime/pick_row.h"

#include <algorithm>
#include <limits>

#include "heddle/support/error.h"
#include "runtime/race/clearly_faster.h"

namespace heddle {
namespace {

constexpr PickReason kReasons[] = {PickReason::Only,     PickReason::Forced,
                                   PickReason::Chosen,   PickReason::Remembered,
                                   PickReason::Measured, PickReason::Static};

PickReason reason_of(const std::string& name) {
  for (const PickReason reason : kReasons) {
    if (name == to_string(reason)) return reason;
  }
  throw_user_error("a pick cannot have the reason '" + name + "'");
}

const VariantTimes* find(const PickRow& row, const std::string& name) {
  for (const VariantTimes& v : row.variants) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

double ratio(double of, double to) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return of < kInf && to < kInf && to > 0 ? of / to : 0;
}

}  // namespace

const char* to_string(PickReason reason) {
  switch (reason) {
    case PickReason::Only: return "only";
    case PickReason::Forced: return "forced";
    case PickReason::Chosen: return "chosen";
    case PickReason::Remembered: return "remembered";
    case PickReason::Measured: return "measured";
    case PickReason::Static: return "static";
  }
  return "";
}

double VariantTimes::median() const {
  if (seconds.empty()) return std::numeric_limits<double>::infinity();
  return median_of(seconds);
}

double PickRow::speedup_over_worst() const {
  const VariantTimes* pick = find(*this, picked);
  double worst = 0;
  for (const VariantTimes& v : variants) {
    if (!v.seconds.empty() && v.dropped.empty()) worst = std::max(worst, v.median());
  }
  return pick == nullptr || worst == 0 ? 0 : ratio(worst, pick->median());
}

double PickRow::speedup_over_static() const {
  const VariantTimes* pick = find(*this, picked);
  if (pick == nullptr || variants.empty() || !variants[0].dropped.empty()) return 0;
  return ratio(variants[0].median(), pick->median());
}

Json PickRow::to_json() const {
  Json j = Json::object({{"pick", kVersion},
                         {"kernel", kernel},
                         {"target", target},
                         {"shapes", shapes},
                         {"picked", picked},
                         {"reason", heddle::to_string(reason)}});
  if (!key.empty()) j["key"] = key;
  if (!note.empty()) j["note"] = note;
  Json list = Json::array();
  for (const VariantTimes& v : variants) {
    Json one = Json::object({{"name", v.name}, {"seconds", Json::array_of(v.seconds)}});
    if (!v.dropped.empty()) one["dropped"] = v.dropped;
    list.push_back(std::move(one));
  }
  j["variants"] = std::move(list);
  if (const double s = speedup_over_worst(); s > 0) j["speedup_over_worst"] = s;
  if (const double s = speedup_over_static(); s > 0) j["speedup_over_static"] = s;
  j["extra_bytes"] = extra_bytes;
  j["spent_seconds"] = spent_seconds;
  j["machine"] = machine;
  j["build"] = build;
  j["unix_time"] = unix_time;
  if (!records.is_null()) j["records"] = records;
  return j;
}

PickRow PickRow::from_json(const Json& json) {
  const int64_t version = json.at("pick").as_int();
  if (version < 1 || version > kVersion) {
    throw_user_error("the pick is of version " + std::to_string(version) +
                         ", and this Heddle reads up to " + std::to_string(kVersion),
                     {}, "use the Heddle that wrote it");
  }
  PickRow row;
  row.kernel = json.at("kernel").as_string();
  row.target = json.get_string("target", "");
  row.shapes = json.at("shapes").as_string();
  row.key = json.get_string("key", "");
  row.picked = json.at("picked").as_string();
  row.reason = reason_of(json.at("reason").as_string());
  row.note = json.get_string("note", "");
  for (const Json& one : json.at("variants").elements()) {
    VariantTimes v;
    v.name = one.at("name").as_string();
    for (const Json& s : one.at("seconds").elements()) v.seconds.push_back(s.as_double());
    v.dropped = one.get_string("dropped", "");
    row.variants.push_back(std::move(v));
  }
  row.extra_bytes = json.get_int("extra_bytes", 0);
  row.spent_seconds = json.get_double("spent_seconds", 0);
  row.machine = json.get_string("machine", "");
  row.build = json.get_string("build", "");
  row.unix_time = json.get_int("unix_time", 0);
  if (const Json* records = json.find("records")) row.records = *records;
  return row;
}

}  // namespace heddle
