#include "driver/near_schedule.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "driver/program_args.h"
#include "driver/records_may_answer.h"
#include "heddle/dag/alternatives.h"
#include "heddle/records/tophub.h"
#include "heddle/schedule/choice.h"
#include "heddle/support/error.h"
#include "records/nearest_config.h"
#include "records/transfer_races.h"
#include "support/files/file.h"
#include "support/log.h"
#include "support/table.h"

namespace heddle::driver {
namespace {

// Candidates that are compared, and neighbours that are looked at for them.
constexpr size_t kCandidates = 4;
constexpr int kNeighbours = 16;

/// Answers with what a record says of the knobs of one template, before the source of the process.
class RecordedKnobs : public ChoiceSource {
 public:
  explicit RecordedKnobs(Choice recorded) : recorded_(std::move(recorded)) {}

  std::string version() const override { return recorded_.source(); }
  std::shared_ptr<const RuleConstants> constants(const Target& target) const override {
    return base_ ? base_->constants(target) : nullptr;
  }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    ChoiceAnswer answer = base_ ? base_->choose(question) : ChoiceAnswer{};
    Choice with = answer.choice.value_or(Choice(recorded_.source()));
    for (const std::string& knob : question.rule.knobs()) {
      if (recorded_.has(knob)) with.set(knob, recorded_.value(knob), "recorded");
    }
    answer.choice = std::move(with);
    return answer;
  }

 private:
  Choice recorded_;
  std::shared_ptr<const ChoiceSource> base_ = installed_choice_source();
};

/// The schedule with the tiles of a record for another number of threads. How much of the work a task
/// has is chosen for these tiles and the threads that are here.
Schedule with_tasks_of_rule(const Template& t, const Config& recorded) {
  const std::vector<size_t> tasks = t.task_knobs();
  Choice tile("the tile of a record");
  Json kept = Json::object();
  for (size_t k = 0; k < t.knobs().size(); ++k) {
    if (std::find(tasks.begin(), tasks.end(), k) != tasks.end()) continue;
    const Knob& knob = t.knobs()[k];
    tile.set(knob.name, recorded.values[k]);
    kept[knob.name] = knob.json_of(recorded.values[k]);
  }
  const Template cut = make_template_with(t.dag(), t.target(), t.options(),
                                          std::make_shared<RecordedKnobs>(std::move(tile)));
  return cut.instantiate(records::nearest_config(cut, kept));
}

/// Throws a User error where the record's config means nothing here.
Schedule transferred(const Neighbour& near, const ComputeDag& dag, const Schedule& rule,
                     const AutoSchedulerOptions& options) {
  const Record& record = *near.record;
  const std::string why = why_alternative_forbidden(record.alternative, dag, options);
  if (!why.empty()) throw_user_error(why);
  const Template t =
      make_template(apply_alternative(dag, record.alternative), rule.target(), options);
  if (t.name() != record.template_name)
    throw_user_error("its template is '" + record.template_name + "', and here it is '" + t.name() +
                     "'");
  const Config config = records::nearest_config(t, record.config);
  return near.by.threads > 0 ? with_tasks_of_rule(t, config) : t.instantiate(config);
}

std::string identity_of(const Schedule& s) {
  return s.dag().alternative() + s.to_json().at("steps").dump();
}

/// The column of the analytic estimate of the time.
size_t estimate_column(const Target& target) {
  const std::vector<FeatureColumn>& columns = feature_columns(target.kind);
  const char* name = target.is_cuda() ? "total.estimate" : "total.cycles";
  const auto at = std::find_if(columns.begin(), columns.end(),
                               [&](const FeatureColumn& c) { return c.name == name; });
  HEDDLE_ICHECK(at != columns.end(), "the features have no estimate");
  return static_cast<size_t>(at - columns.begin());
}

/// The number of candidates that are better in one respect.
template <class Value>
int rank_of(const NearCandidate& c, const std::vector<NearCandidate>& all, Value value) {
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const NearCandidate& other) {
    return other.schedule && value(other) > value(c);
  }));
}

/// Brings the candidates in the order in which they should be taken.
void sort_candidates(std::vector<NearCandidate>& all) {
  const auto place = [&](const NearCandidate& c) {
    if (!c.schedule) return std::pair(2, 0);
    return std::pair(c.agreed() ? 0 : 1,
                     rank_of(c, all, [](const NearCandidate& o) { return o.predicted; }) +
                         rank_of(c, all, [](const NearCandidate& o) { return o.estimated; }));
  };
  std::vector<std::pair<std::pair<int, int>, size_t>> order;
  for (size_t i = 0; i < all.size(); ++i) order.emplace_back(place(all[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<NearCandidate> sorted;
  for (const auto& [key, i] : order) sorted.push_back(std::move(all[i]));
  all = std::move(sorted);
}

}  // namespace

std::vector<NearCandidate> near_candidates(const ComputeDag& dag, const Schedule& rule,
                                           const AutoSchedulerOptions& options,
                                           const RecordDatabase& known, CostModel& model) {
  std::vector<NearCandidate> all;
  const std::vector<Neighbour> near = known.neighbours(dag, rule.target(), kNeighbours);
  if (near.empty()) return all;
  const std::vector<Tensor> args = declared_args(dag.direct());
  std::vector<Features> rows = {schedule_features(rule, args)};
  std::set<std::string> seen = {identity_of(rule)};
  for (const Neighbour& n : near) {
    if (rows.size() > kCandidates) break;
    NearCandidate& c = all.emplace_back(NearCandidate{.from = n, .schedule = {}, .why_not = {}});
    try {
      const Schedule s = transferred(n, dag, rule, options);
      if (!seen.insert(identity_of(s)).second) {
        c.why_not = "it is the same schedule as the rule's, or that of a nearer record";
        continue;
      }
      rows.push_back(schedule_features(s, args));
      c.schedule = s;
    } catch (const Error& e) {
      c.why_not = e.message;
    } catch (const std::exception& e) {  // a log may contain anything
      c.why_not = e.what();
    }
  }
  const std::vector<double> scores = model.predict(dag.structural_hash(), rows);
  const size_t estimate = estimate_column(rule.target());
  size_t row = 0;
  for (NearCandidate& c : all) {
    if (!c.schedule) continue;
    ++row;
    c.predicted = scores[row] - scores[0];
    c.estimated = rows[0][estimate] - rows[row][estimate];
  }
  sort_candidates(all);
  return all;
}

NearestModel load_nearest_model(const Target& target) {
  const std::optional<std::string> file = tophub_nearest_model(target);
  if (!file) return {};
  try {
    std::shared_ptr<CostModel> model = make_xgboost_model({.target_kind = target.kind});
    model->load(*file);
    return {*file, std::move(model)};
  } catch (const Error& e) {
    HEDDLE_LOG_AT("records", 1, e.message);
    return {};
  }
}

namespace {

/// What ships for a chip.
struct ChipEvidence {
  std::vector<records::Transfer> races;
  NearestModel nearest;  ///< loaded where there are races
  std::mutex predicting;
};

/// The evidence for a chip, read once.
std::shared_ptr<ChipEvidence> evidence_for(const Target& target) {
  static std::mutex mutex;
  // XGBoost's own statics may end before those of this library, so the models are never freed.
  static auto& known = *new std::map<std::string, std::shared_ptr<ChipEvidence>>;
  const std::string key = tophub_version() + "#" + target.kind + "-" + target.chip();
  const std::lock_guard lock(mutex);
  std::shared_ptr<ChipEvidence>& found = known[key];
  if (found) return found;
  found = std::make_shared<ChipEvidence>();
  const std::optional<std::string> file = tophub_file(target, ".transfers");
  if (!file) return found;
  try {
    found->races = records::parse_transfers(read_file(*file), *file).races;
    found->nearest = load_nearest_model(target);
  } catch (const Error& e) {
    HEDDLE_LOG_AT("records", 1, e.message);
  }
  return found;
}

std::string proof_text(const records::TransferProof& proof) {
  return std::to_string(proof.races) + " races of such records gained " +
         format_fixed(proof.mean, 2) + " in the mean and " + format_fixed(proof.least, 2) +
         " at least";
}

std::string name_of(const Neighbour& n) {
  return describe(*n.record) + " of " + n.record->subject + " for '" + to_string(n.record->target) +
         "' at distance " + to_string(n.by);
}

std::string why_not(const NearCandidate& c) {
  if (!c.schedule) return c.why_not;
  if (c.predicted <= 0) return "the cost model does not prefer it to the rule's choice";
  if (c.estimated < 0) return "the estimate does not prefer it to the rule's choice";
  return "no races show that such a record wins here";
}

}  // namespace

NearAnswer near_schedule(const ComputeDag& dag, const Schedule& rule,
                         const AutoSchedulerOptions& options) {
  if (!records_may_answer(options)) return {{}, "the options leave records out"};
  const std::shared_ptr<ChipEvidence> evidence = evidence_for(rule.target());
  if (evidence->races.empty())
    return {{}, "no races on this chip show that records of near cases win"};
  if (!evidence->nearest.model) return {{}, "there is no cost model that could agree"};
  const std::shared_ptr<const RecordDatabase> known = tophub(options.record_log);
  const std::lock_guard lock(evidence->predicting);
  const std::vector<NearCandidate> all =
      near_candidates(dag, rule, options, *known, *evidence->nearest.model);
  if (all.empty()) return {{}, "there are no records of this structure"};
  std::string why = why_not(all[0]);
  for (const NearCandidate& c : all) {
    if (!c.agreed()) continue;
    const std::optional<records::TransferProof> proof =
        records::proof_of_transfer(evidence->races, c.from.record->template_name, c.from.by);
    if (!proof) continue;
    try {
      check_lowers(*c.schedule);
      Schedule s = *c.schedule;
      s.provenance = "from the " + name_of(c.from) + "; " + proof_text(*proof);
      return {s, ""};
    } catch (const Error& e) {
      why = e.message;
    }
  }
  return {{}, "not from the " + name_of(all[0].from) + ": " + why};
}

}  // namespace heddle::driver
