#include "records/transfers.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <set>

#include "driver/near_schedule.h"
#include "heddle/cost_model/cost_model.h"
#include "heddle/measure/measure.h"
#include "heddle/records/database.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "records/transfer_races.h"
#include "records/upgrade.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"
#include "support/files/file.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

/// The declarations to race on, each once.
std::vector<Problem> problems_of(const Request& o, const std::vector<Record>& records,
                                 const Target& target) {
  std::vector<Problem> problems;
  std::set<uint64_t> seen;
  const Declarations declarations(records);
  for (const Record& r : records) {
    if (r.target.kind != target.kind || !seen.insert(r.structural_hash).second) continue;
    if (std::optional<Problem> p = declarations.of(r)) problems.push_back(*std::move(p));
  }
  for (const std::string& subject : o.subjects) {
    Problem p = make_problem(subject, dtype_of(o.dtype));
    if (seen.insert(ComputeDag(p.outputs).structural_hash()).second)
      problems.push_back(std::move(p));
  }
  return problems;
}

/// Races on this machine.
class Races {
 public:
  Races(const Request& o, const RecordDatabase& known, CostModel& model, bool on_gpu)
      : seconds_(o.seconds),
        known_(known),
        model_(model),
        measurer_(on_gpu ? make_cuda_measurer() : make_worker_measurer()) {}

  void race(const Problem& problem, const Target& target) {
    const TuneTask task = make_task(problem.subject, problem.outputs, target, problem.args());
    const ComputeDag dag(problem.outputs);
    const AutoSchedulerOptions& options = task.tmpl.options();
    const Schedule rule = make_static_template(dag, target, options).static_schedule();
    std::vector<driver::NearCandidate> racing;
    for (driver::NearCandidate& c : driver::near_candidates(dag, rule, options, known_, model_)) {
      if (c.schedule) racing.push_back(std::move(c));
    }
    if (racing.empty()) return;
    std::vector<Schedule> schedules = {rule};
    for (const driver::NearCandidate& c : racing) schedules.push_back(*c.schedule);
    const std::vector<MeasureResult> results = measurer_->race(
        task, schedules, seconds_ * static_cast<double>(schedules.size()), TuneClock());
    if (!results[0].ok()) return;
    for (size_t i = 0; i < racing.size(); ++i)
      add(problem, target, racing[i], results[0], results[i + 1]);
  }

  records::Transfers take() {
    if (predicted_.size() > 1)
      done_.rank_correlation = evaluate_ranking(predicted_, measured_).spearman;
    return std::move(done_);
  }

 private:
  void add(const Problem& problem, const Target& target, const driver::NearCandidate& c,
           const MeasureResult& rule, const MeasureResult& other) {
    const Record& r = *c.from.record;
    records::Transfer t{.subject = problem.subject,
                        .target = target,
                        .template_name = r.template_name,
                        .from = r.subject + " for " + to_string(r.target),
                        .by = c.from.by,
                        .agreed = c.agreed(),
                        .gain = other.ok() ? rule.median() / other.median() : 0};
    std::cout << t.subject << " for " << to_string(target) << " from " << t.from << " at "
              << to_string(t.by) << (t.agreed ? ": " : ", not agreed: ")
              << (other.ok() ? format_fixed(t.gain, 3) : other.message) << std::endl;
    if (other.ok()) {
      predicted_.push_back(c.predicted);
      measured_.push_back(t.gain);
    }
    done_.races.push_back(std::move(t));
  }

  double seconds_;
  const RecordDatabase& known_;
  CostModel& model_;
  std::unique_ptr<Measurer> measurer_;
  records::Transfers done_;
  std::vector<double> predicted_, measured_;
};

/// What the choice would have gained on each case if it had known only the races of other subjects.
void print_left_out(const records::Transfers& all) {
  int taken = 0;
  double logs = 0, least = std::numeric_limits<double>::infinity();
  std::set<std::string> answered;
  for (const records::Transfer& t : all.races) {
    const std::string a_case = t.subject + to_string(t.target);
    if (!t.agreed || answered.contains(a_case)) continue;
    std::vector<records::Transfer> others;
    std::copy_if(all.races.begin(), all.races.end(), std::back_inserter(others),
                 [&](const records::Transfer& o) { return o.subject != t.subject; });
    if (!records::proof_of_transfer(others, t.template_name, t.by)) continue;
    answered.insert(a_case);  // races of a case are in the order in which candidates are taken
    ++taken;
    logs += std::log(t.gain);
    least = std::min(least, t.gain);
  }
  std::cout << all.races.size() << " races; with each subject left out, ";
  if (taken == 0) {
    std::cout << "no record would be taken\n";
    return;
  }
  std::cout << taken << (taken == 1 ? " record" : " records") << " would be taken, with a gain of "
            << format_fixed(std::exp(logs / taken), 3) << " in the geometric mean and "
            << format_fixed(least, 3) << " at least\n";
}

}  // namespace

int race_transfers(const Request& o, const std::vector<Record>& records) {
  const Target whole = target_of(o.target, 0);
  if (!whole.runs_here())
    throw_user_error("kernels for '" + to_string(whole) + "' do not race on this machine", {},
                     "run the races on such a machine, or leave --target out");
  const driver::NearestModel nearest = driver::load_nearest_model(whole);
  if (!nearest.model)
    throw_user_error("there is no cost model for '" + whole.kind + "' that could be asked", {},
                     "train one: heddle records train LOGS -o " + whole.kind + "-CHIP.model");
  RecordDatabase known;
  for (const Record& r : records) known.add(r);
  Races races(o, known, *nearest.model, whole.is_cuda());
  std::set<int> threads(o.thread_counts.begin(), o.thread_counts.end());
  if (threads.empty() || whole.is_cuda())
    threads = {whole.is_cuda() ? whole.cores : 1, whole.cores};
  for (const Problem& problem : problems_of(o, records, whole)) {
    for (const int n : threads) {
      Target target = whole;
      target.cores = n;
      try {
        races.race(problem, target);
      } catch (const Error& e) {
        if (e.kind == ErrorKind::Internal) throw;
        std::cerr << "warning: " << problem.subject << ": " << e.message << "\n";
      }
    }
  }
  records::Transfers all = races.take();
  all.machine = internal::machine_fingerprint();
  all.build = internal::build_fingerprint();
  all.model = std::filesystem::path(nearest.file).filename().string();
  write_file_atomic(o.output, records::to_text(all));
  print_left_out(all);
  std::cout << "wrote " << o.output << "\n";
  return 0;
}

}  // namespace heddle::cli
