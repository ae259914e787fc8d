#include "heddle/records/database.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "heddle/records/record_log.h"
#include "heddle/support/error.h"

namespace heddle {

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
};

namespace {

/// The distance of two lists of extents; infinity where they cannot be compared.
double distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (a[i] <= 0 || b[i] <= 0) return std::numeric_limits<double>::infinity();
    sum += std::abs(std::log2(static_cast<double>(a[i]) / static_cast<double>(b[i])));
  }
  return sum;
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

std::vector<const Record*> RecordDatabase::nearest(const ComputeDag& dag, const Target& target,
                                                   int most) const {
  struct Neighbour {
    double distance;
    const Record* record;
  };
  const std::vector<int64_t> extents = dag.extents();
  std::vector<uint64_t> seen = {dag.structural_hash()};
  std::vector<Neighbour> found;
  for (const std::size_t i : impl_->with_class(internal::shape_class_of(dag))) {
    const Record& r = impl_->records[i];
    if (std::find(seen.begin(), seen.end(), r.structural_hash) != seen.end()) continue;
    seen.push_back(r.structural_hash);
    const Record* its_best = best(r.structural_hash, target);
    if (its_best == nullptr) continue;
    const double d = distance(extents, its_best->extents);
    if (std::isfinite(d)) found.push_back({d, its_best});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Neighbour& a, const Neighbour& b) { return a.distance < b.distance; });
  std::vector<const Record*> result;
  for (const Neighbour& n : found) {
    if (static_cast<int>(result.size()) >= most) break;
    result.push_back(n.record);
  }
  return result;
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
  std::string text;
  std::vector<std::string> names;
  for (const Record* r : nearest(dag, target, std::numeric_limits<int>::max())) {
    add_once(names, name_of(*r));
  }
  if (!names.empty()) {
    return "there are records of this structure, but of other extents; nearest first: " +
           list_text(names) + ". They are seeds for a search, no answer";
  }
  for (const std::size_t i : impl_->with_class(internal::shape_class_of(dag))) {
    const Record& r = impl_->records[i];
    add_once(names, name_of(r) + " for '" + to_string(r.target) + "'" +
                        (r.ok() ? "" : std::string(" (failed: ") + to_string(r.error) + ")"));
  }
  if (!names.empty()) {
    return "there are records of this structure, but of other extents, and none that is valid for "
           "'" +
           target_text + "': " + list_text(names);
  }
  if (impl_->records.empty()) return "there are no records at all";
  return "none of the " + count_text(impl_->records.size()) +
         " is of this structure: other stages, types, constants or strides";
}

}  // namespace heddle
