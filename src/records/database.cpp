#include "heddle/records/database.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "heddle/records/record_log.h"
#include "heddle/support/error.h"
#include "records/log_ratio.h"
#include "support/table.h"

namespace heddle {

using namespace records;

struct RecordDatabase::Impl {
  std::vector<Record> records;
  /// The values that rank a record, computed once for each.
  struct Standing {
    int rank = 0;
    Verdict verdict = Verdict::Screened;
    double median = 0;
  };
  std::vector<Standing> standings;  // one for each of `records`
  std::unordered_map<uint64_t, std::vector<std::size_t>> by_hash;
  std::unordered_map<std::string, std::vector<std::size_t>> by_class;
  /// The best record of each declaration and target, by class and by hash. Records without a class
  /// are in neither.
  std::unordered_map<std::string, std::vector<std::shared_ptr<std::size_t>>> cases_of_class;
  std::unordered_map<uint64_t, std::vector<std::shared_ptr<std::size_t>>> cases_of_hash;

  const std::vector<std::size_t>& with_hash(uint64_t hash) const {
    static const std::vector<std::size_t> none;
    const auto it = by_hash.find(hash);
    return it != by_hash.end() ? it->second : none;
  }
  const std::vector<std::size_t>& with_class(const std::string& name) const {
    static const std::vector<std::size_t> none;
    const auto it = by_class.find(name);
    return it != by_class.end() && !name.empty() ? it->second : none;
  }

  /// Whether record `a` is better than `b`; both are valid.
  bool better(std::size_t a, std::size_t b) const {
    const Standing &x = standings[a], &y = standings[b];
    if (x.rank != y.rank) return x.rank > y.rank;
    // Tuning returned the winner of a race, whatever other races measured on other days, so the
    // latest winner counts. The same holds for a choice without a race.
    if (x.verdict != y.verdict) return x.verdict > y.verdict;
    if (x.verdict >= Verdict::Chosen) return a > b;
    return x.median != y.median ? x.median < y.median : a > b;
  }

  /// Enters the record into its case.
  void add_to_case(std::size_t index) {
    const Record& r = records[index];
    if (!r.ok() || r.shape_class.empty()) return;
    std::vector<std::shared_ptr<std::size_t>>& of_hash = cases_of_hash[r.structural_hash];
    for (const std::shared_ptr<std::size_t>& best : of_hash) {
      if (!target_matches(records[*best].target, r.target)) continue;
      if (better(index, *best)) *best = index;
      return;
    }
    of_hash.push_back(std::make_shared<std::size_t>(index));
    cases_of_class[r.shape_class].push_back(of_hash.back());
  }
};

namespace {

/// The distance of two lists of extents; infinity where they cannot be compared.
double distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += log_ratio(static_cast<double>(a[i]), static_cast<double>(b[i]));
  }
  return sum;
}

Nearness nearness(const Record& r, const std::vector<int64_t>& extents, const Target& target) {
  const bool threads = !target.is_cuda() && !r.target.is_cuda();
  return {.sizes = distance(r.extents, extents),
          .threads = threads ? log_ratio(r.target.cores, target.cores) : 0,
          .chip = chip_distance(r.target, target)};
}

std::string name_of(const Record& r) { return r.subject.empty() ? "(unnamed)" : r.subject; }

std::string count_text(std::size_t n) {
  return std::to_string(n) + (n == 1 ? " record" : " records");
}

/// A list as text: "a, b, c and 4 more".
std::string list_text(const std::vector<std::string>& items) {
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kMost); ++i) {
    text += (i != 0 ? ", " : "") + items[i];
  }
  if (items.size() > kMost) text += " and " + std::to_string(items.size() - kMost) + " more";
  return text;
}

void add_once(std::vector<std::string>& items, const std::string& item) {
  if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
}

}  // namespace

std::string to_string(const Nearness& by) {
  std::string parts;
  const auto add = [&](const char* name, double part) {
    if (part == 0) return;
    parts += (parts.empty() ? "" : ", ") + std::string(name) + " " + format_fixed(part, 2);
  };
  add("sizes", by.sizes);
  add("threads", by.threads);
  add("chip", by.chip);
  return format_fixed(by.total(), 2) + (parts.empty() ? "" : " (" + parts + ")");
}

RecordDatabase::RecordDatabase() : impl_(std::make_unique<Impl>()) {}
RecordDatabase::~RecordDatabase() = default;
RecordDatabase::RecordDatabase(RecordDatabase&&) noexcept = default;
RecordDatabase& RecordDatabase::operator=(RecordDatabase&&) noexcept = default;

void RecordDatabase::add(Record record, int rank) {
  const std::size_t index = impl_->records.size();
  impl_->by_hash[record.structural_hash].push_back(index);
  impl_->by_class[record.shape_class].push_back(index);
  impl_->standings.push_back({rank, record.verdict, record.median()});
  impl_->records.push_back(std::move(record));
  impl_->add_to_case(index);
}

std::vector<std::string> RecordDatabase::add_file(const std::string& path, int rank) {
  ReadResult read = read_records(path);
  for (Record& r : read.records) add(std::move(r), rank);
  return std::move(read.problems);
}

const std::vector<Record>& RecordDatabase::records() const { return impl_->records; }

std::vector<const Record*> RecordDatabase::ranked(uint64_t hash, const Target& target) const {
  std::vector<std::size_t> found;
  for (const std::size_t i : impl_->with_hash(hash)) {
    const Record& r = impl_->records[i];
    if (r.ok() && target_matches(r.target, target)) found.push_back(i);
  }
  std::sort(found.begin(), found.end(),
            [&](std::size_t a, std::size_t b) { return impl_->better(a, b); });
  std::vector<const Record*> result;
  for (const std::size_t i : found) result.push_back(&impl_->records[i]);
  return result;
}

const Record* RecordDatabase::best(uint64_t hash, const Target& target) const {
  const std::vector<const Record*> all = ranked(hash, target);
  return all.empty() ? nullptr : all.front();
}

std::vector<const Record*> RecordDatabase::of(uint64_t hash, const Target& target) const {
  std::vector<const Record*> result;
  for (const std::size_t i : impl_->with_hash(hash)) {
    const Record& r = impl_->records[i];
    if (target_matches(r.target, target)) result.push_back(&r);
  }
  return result;
}

std::vector<Neighbour> RecordDatabase::neighbours(const ComputeDag& dag, const Target& target,
                                                  int most) const {
  std::vector<Neighbour> found;
  const auto cases = impl_->cases_of_class.find(internal::shape_class_of(dag));
  if (cases == impl_->cases_of_class.end()) return found;
  const std::vector<int64_t> extents = dag.extents();
  const uint64_t hash = dag.structural_hash();
  for (const std::shared_ptr<std::size_t>& best : cases->second) {
    const Record& r = impl_->records[*best];
    if (r.structural_hash == hash && target_matches(r.target, target)) continue;
    const Neighbour neighbour{&r, nearness(r, extents, target)};
    if (std::isfinite(neighbour.by.total())) found.push_back(neighbour);
  }
  std::stable_sort(found.begin(), found.end(), [](const Neighbour& a, const Neighbour& b) {
    return a.by.total() < b.by.total();
  });
  if (found.size() > static_cast<std::size_t>(std::max(most, 0)))
    found.resize(static_cast<std::size_t>(std::max(most, 0)));
  return found;
}

std::string RecordDatabase::why_no_hit(const ComputeDag& dag, const Target& target) const {
  const uint64_t hash = dag.structural_hash();
  if (const Record* hit = best(hash, target)) return "there is a hit: " + describe(*hit);
  const std::string target_text = to_string(target);

  const std::vector<const Record*> here = of(hash, target);
  if (!here.empty()) {
    std::vector<std::string> kinds;
    for (const Record* r : here) add_once(kinds, to_string(r->error));
    return "the " + count_text(here.size()) + " of this declaration for this target " +
           (here.size() == 1 ? "is of a failure (" : "are all of failures (") + list_text(kinds) +
           ")";
  }
  std::vector<std::string> targets;
  for (const std::size_t i : impl_->with_hash(hash)) {
    add_once(targets, "'" + to_string(impl_->records[i].target) + "'");
  }
  if (!targets.empty()) {
    return "there are records of this declaration, but none for '" + target_text +
           "': they are for " + list_text(targets);
  }
  std::vector<std::string> names;
  for (const Neighbour& n : neighbours(dag, target, std::numeric_limits<int>::max())) {
    const bool here_too = n.by.threads + n.by.chip == 0;
    add_once(names,
             name_of(*n.record) + (here_too ? "" : " for '" + to_string(n.record->target) + "'"));
  }
  if (!names.empty()) {
    return "there are records of this structure, but of other extents; nearest first: " +
           list_text(names);
  }
  for (const std::size_t i : impl_->with_class(internal::shape_class_of(dag))) {
    const Record& r = impl_->records[i];
    add_once(names, name_of(r) + " for '" + to_string(r.target) + "'" +
                        (r.ok() ? "" : std::string(" (failed: ") + to_string(r.error) + ")"));
  }
  if (!names.empty()) {
    return "there are records of this structure, but none that is valid and near: " +
           list_text(names);
  }
  if (impl_->records.empty()) return "there are no records at all";
  return "none of the " + count_text(impl_->records.size()) +
         " is of this structure: other stages, types, constants or strides";
}

}  // namespace heddle
