// An audit as text and as JSON.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "heddle/network/audit.h"
#include "support/table.h"

namespace heddle {
namespace {

// Rows with an explanation below the table, and reasons of each.
constexpr size_t kExplained = 5, kReasons = 3;
// Kernels that lose less than this share of what is lost together are counted only.
constexpr double kLeastShare = 0.005;

std::string percent(double share) { return format_fixed(100 * share, 1) + " %"; }

std::string bound_text(const AuditRow& row) {
  if (row.bounds.empty()) return "";
  const AuditReference& b = row.bounds[0];
  return format_time(b.seconds) + ", " + to_string(b.bound);
}

/// How likely the choice is to be within 5 % of the best.
std::string sure_text(const AuditRow& row) {
  const std::optional<double>& p = row.certificate.probability;
  return p ? format_fixed(100 * *p, 0) + " %" : "-";
}

std::string gain_text(const AuditChange& c) {
  return format_time(c.before) + " -> " + format_time(c.after) + ", x" +
         format_fixed(c.before / c.after, 2) + (c.proven ? "" : ", not proven");
}

std::string explanation(const AuditRow& row) {
  std::string text = row.name + "\n  chosen by: " + row.provenance + "\n";
  for (size_t i = 0; i < std::min(kReasons, row.why.size()); ++i)
    text += (i == 0 ? "  because:   " : "             ") + row.why[i] + "\n";
  for (const AuditReference& b : row.bounds) {
    text += "  bound:     " + format_time(b.seconds) + ", " + to_string(b.bound) +
            (b.source.empty() ? "" : " (" + b.source + ")") + "\n";
  }
  for (const AuditChange& c : row.changes) {
    text += std::string("  faster:    ") + to_string(c.from) + ": " + c.text + "\n             " +
            gain_text(c) + "\n";
  }
  return text;
}

Json json_of(const AuditRow& row) {
  Json bounds = Json::array(), changes = Json::array();
  for (const AuditReference& b : row.bounds) {
    bounds.push_back(Json::object(
        {{"bound", to_string(b.bound)}, {"seconds", b.seconds}, {"source", b.source}}));
  }
  for (const AuditChange& c : row.changes) {
    changes.push_back(Json::object({{"from", to_string(c.from)},
                                    {"text", c.text},
                                    {"source", c.source},
                                    {"before", c.before},
                                    {"after", c.after},
                                    {"proven", c.proven}}));
  }
  return Json::object({{"name", row.name},
                       {"task", row.task},
                       {"nodes", Json::array_of(row.nodes)},
                       {"seconds", row.seconds},
                       {"share", row.share},
                       {"lost_s", row.lost_s()},
                       {"flops", row.flops},
                       {"bytes", row.bytes},
                       {"roof_s", row.roof_s},
                       {"bounds", std::move(bounds)},
                       {"certificate", row.certificate.to_json()},
                       {"template", row.template_name},
                       {"alternative", row.alternative},
                       {"provenance", row.provenance},
                       {"why", Json::array_of(row.why)},
                       {"changes", std::move(changes)}});
}

}  // namespace

const char* to_string(AuditBound bound) {
  switch (bound) {
    case AuditBound::Roof: return "roof";
    case AuditBound::Like: return "like";
    case AuditBound::Rules: return "rules";
    case AuditBound::Record: return "record";
    case AuditBound::Tuned: return "tuned";
    case AuditBound::OneSize: return "one size";
    case AuditBound::Graph: return "graph";
  }
  return "";
}

std::string Audit::to_string() const {
  Table table(
      {"kernel", "nodes", "share", "time", "lost", "best known", "sure", "template", "what wins"});
  for (size_t column : {5, 7, 8}) table.align_left(column);
  const double lost = lost_s();
  size_t left_out = 0;
  for (const AuditRow& row : rows) {
    if (row.lost_s() < kLeastShare * lost) {
      ++left_out;
      continue;
    }
    const bool wins = !row.changes.empty();
    table.add_row({row.name, std::to_string(row.nodes.size()), percent(row.share),
                   format_time(row.seconds), format_time(row.lost_s()), bound_text(row),
                   sure_text(row), row.template_name, wins ? row.changes[0].text : ""});
  }
  std::string text = (sizes.empty() ? "" : "at " + sizes + ":\n") + table.to_string();
  if (left_out > 0)
    text += "and " + std::to_string(left_out) + " more, which lose next to nothing\n";
  text += "a call: " + format_time(call_s) + ", " + format_time(lost) + " above the bounds, " +
          std::to_string(threads) + (threads == 1 ? " thread" : " threads") + "\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    if ((r < kExplained && rows[r].lost_s() > 0) || !rows[r].changes.empty())
      text += "\n" + explanation(rows[r]);
  }
  for (const std::string& problem : problems) text += "problem: " + problem + "\n";
  return text;
}

Json Audit::to_json() const {
  Json kernels = Json::array();
  for (const AuditRow& row : rows) kernels.push_back(json_of(row));
  Json j = Json::object({{"target", target},
                         {"threads", threads},
                         {"call_s", call_s},
                         {"lost_s", lost_s()},
                         {"kernels", std::move(kernels)},
                         {"problems", Json::array_of(problems)}});
  if (!sizes.empty()) j["sizes"] = sizes;
  return j;
}

std::ostream& operator<<(std::ostream& out, const Audit& audit) { return out << audit.to_string(); }

}  // namespace heddle
