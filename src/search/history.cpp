#include "search/history.h"

#include <algorithm>
#include <map>

#include "heddle/support/error.h"
#include "records/nearest_config.h"

namespace heddle::search {
namespace {

constexpr int kSeedsOfAKind = 4;

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

// Best first.
void sort_by_time(std::vector<const Record*>& records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const Record* a, const Record* b) { return a->median() < b->median(); });
}

class Reader {
 public:
  Reader(const TuneTask& task, const std::string& protocol)
      : task_(task), protocol_(protocol), hash_(task.tmpl.dag().structural_hash()) {
    for (int b = 0; b < task.tmpl.num_branches(); ++b)
      versions_.push_back(task.tmpl.branch(b).fingerprint());
  }

  bool is_ours(const Record& r) const {
    return r.structural_hash == hash_ && target_matches(r.target, task_.tmpl.target());
  }

  void read(const Record& r) {
    if (!is_ours(r) || r.error == MeasureError::Cancelled) return;
    const int b = task_.tmpl.find_branch(r.alternative);
    if (b < 0) return;  // the alternative is not wanted, or its rule does not exist any more
    if (r.template_name != task_.tmpl.branch(b).name() ||
        r.template_version != versions_[static_cast<size_t>(b)]) {
      if (r.ok()) other_template_.push_back(&r);
    } else if (protocols_compare(r.protocol, protocol_)) {
      add_trial(r);
    } else if (r.ok()) {
      other_protocol_.push_back(&r);
    }
  }

  History finish() {
    sort_by_time(other_protocol_);
    for (const Record* r : other_protocol_) {
      if (static_cast<int>(out_.seeds.size()) < kSeedsOfAKind)
        out_.seeds.push_back(records::nearest_config(task_.tmpl, *r));
    }
    sort_by_time(other_template_);
    for (const Record* r : other_template_) {
      if (out_.replayed.size() == 1) break;
      try {
        out_.replayed.push_back(
            replay(*r, task_.tmpl.dag(), task_.tmpl.target(), task_.tmpl.options()));
      } catch (const Error&) {
        // The steps were written by a version whose schedules no longer replay.
      }
    }
    return std::move(out_);
  }

 private:
  void add_trial(const Record& r) {
    Config config;
    try {
      const int b = task_.tmpl.find_branch(r.alternative);
      config = task_.tmpl.config_of_branch(b, task_.tmpl.branch(b).config_from_json(r.config));
    } catch (const Error&) {
      return;  // values that are not offered any more count as not measured
    }
    auto [at, is_new] = index_.try_emplace(config.values, out_.trials.size());
    if (is_new) {
      out_.trials.push_back({config, r.median(), r.base_seconds, r.error});
    } else if (r.raced() || r.error != MeasureError::None) {
      // A race measures better than a screening. An error that is found later (a wrong answer) is
      // kept.
      out_.trials[at->second].seconds = r.median();
      out_.trials[at->second].base_seconds = r.base_seconds;
      out_.trials[at->second].error = r.error;
    }
  }

  const TuneTask& task_;
  const std::string& protocol_;
  uint64_t hash_;
  std::vector<uint64_t> versions_;  ///< versions of the template's branches
  History out_;
  std::map<std::vector<int64_t>, size_t> index_;  ///< the trial of a config
  std::vector<const Record*> other_protocol_, other_template_;
};

}  // namespace

bool protocols_compare(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || first_word(a) == first_word(b);
}

History history_of(const TuneTask& task, const std::vector<Record>& log,
                   const std::string& protocol, const RecordDatabase* shipped) {
  Reader reader(task, protocol);
  for (const Record& r : log) reader.read(r);
  History out = reader.finish();
  auto seed = [&](const Record& r) { out.seeds.push_back(records::nearest_config(task.tmpl, r)); };
  const ComputeDag& dag = task.tmpl.dag();
  const Target& target = task.tmpl.target();
  if (shipped) {
    if (const Record* exact = shipped->best(dag.structural_hash(), target)) seed(*exact);
    for (const Neighbour& n : shipped->neighbours(dag, target, kSeedsOfAKind)) seed(*n.record);
  }
  if (!log.empty()) {
    RecordDatabase own;
    for (const Record& r : log) own.add(r);
    for (const Neighbour& n : own.neighbours(dag, target, kSeedsOfAKind)) seed(*n.record);
  }
  return out;
}

}  // namespace heddle::search
