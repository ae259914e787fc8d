// Lesson 11: a choice of your own that is learned.
//
// Heddle's templates ask heuristics which tile to take. A heuristic need not have anything to do
// with templates, though. Here a program has two ways to look up numbers in a table that is not
// sorted: scan the table for each number, or sort a copy of the table first and then search in it
// by halves. Which one is faster depends on the length of the table, on how many numbers are looked
// up, and on the machine. So we declare the choice, tell how long both took on some problems, train
// a tree, and let the tree choose.
//
//   build/bin/tutorial_11_own_choice
#include <heddle/heuristics/collect.h>
#include <heddle/heuristics/train_tree.h>
#include <heddle/heuristics/tree_choices.h>
#include <heddle/runtime/timer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/budget.h"
#include "common/expect.h"

using namespace heddle;
using namespace heddle::tutorials;

namespace {

// ---- The program, which knows nothing of Heddle.
// -------------------------------------------------

using Numbers = std::vector<int>;

int64_t found_by_scanning(const Numbers& table, const Numbers& wanted) {
  return std::count_if(wanted.begin(), wanted.end(), [&](int w) {
    return std::find(table.begin(), table.end(), w) != table.end();
  });
}

int64_t found_by_sorting(const Numbers& table, const Numbers& wanted) {
  Numbers sorted = table;
  std::sort(sorted.begin(), sorted.end());
  return std::count_if(wanted.begin(), wanted.end(),
                       [&](int w) { return std::binary_search(sorted.begin(), sorted.end(), w); });
}

// ---- 1. The choice, declared once.
// ---------------------------------------------------------------

enum Algorithm : int64_t { kScan, kSort };

ParameterSet algorithm(Algorithm a) { return ParameterSet().set("algorithm", a); }

Heuristic lookup_heuristic() {
  Heuristic h;
  h.name = "lookup";
  h.about = "look numbers up in a table that is not sorted";
  h.features = {{"table"}, {"wanted"}};
  // Computed from the others, in collection, training and use alike.
  h.augmented = {{{"comparisons"}, [](const FeatureView& f) { return f["table"] * f["wanted"]; }}};
  h.parameters = {{"algorithm", {"scan", "sort"}}};
  h.candidates = [](const Situation&) {
    return std::vector<ParameterSet>{algorithm(kScan), algorithm(kSort)};
  };
  h.fallback = algorithm(kSort);  // where nothing is known: never very slow
  return h;
}

NamedFeatures features_of(const Numbers& table, const Numbers& wanted) {
  return {{"table", static_cast<double>(table.size())},
          {"wanted", static_cast<double>(wanted.size())}};
}

Numbers random_numbers(Rng& rng, int64_t count) {
  Numbers out(static_cast<size_t>(count));
  for (int& x : out) x = static_cast<int>(rng.uniform_int(0, 1 << 20));
  return out;
}

// ---- 2. Feedback: a line of a log for each problem, as soon as both times are known.
// ---------------

template <typename Run>
double seconds_of(const Run& run) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const Timer timer;
    run();
    best = std::min(best, timer.elapsed_s());
  }
  return best;
}

void measure_some_problems(HeuristicLog& log, int count) {
  Rng rng(11);
  for (int i = 0; i < count; ++i) {
    const auto size = [&](double most) {
      return static_cast<int64_t>(std::exp2(rng.uniform_real(0, std::log2(most))));
    };
    const Numbers table = random_numbers(rng, size(20000));
    const Numbers wanted = random_numbers(rng, size(4000));
    int64_t scanned = 0, sorted = 0;
    const double scan = seconds_of([&] { scanned = found_by_scanning(table, wanted); });
    const double sort = seconds_of([&] { sorted = found_by_sorting(table, wanted); });
    HEDDLE_EXPECT(scanned == sorted, "the two algorithms disagree");
    log.add("problem " + std::to_string(i), features_of(table, wanted),
            {{algorithm(kScan), scan}, {algorithm(kSort), sort}});
  }
}

// ---- 4. Use. -----------------------------------------------------------------------------------

Algorithm choose(const LearnedChoice& learned, const NamedFeatures& features) {
  const LearnedChoice::Answer answer = learned.answer(features);
  // Unsure, or as good as anything: what we would have done without a tree.
  if (!answer.choice) return kSort;
  return static_cast<Algorithm>(answer.choice->get("algorithm", kSort));
}

}  // namespace

int main() {
  const Heuristic heuristic = lookup_heuristic();
  const TemporaryFile file("lookup.jsonl");
  HeuristicLog log(file.path(), heuristic, "this machine");
  measure_some_problems(log, 240);
  std::printf("%zu problems measured\n", log.size());

  // 3. Training. The tree minimises what a wrong answer costs, and knows when it does not know.
  // How much a single problem may lose against the fallback is for us to say: these times are of
  // microseconds, and where both algorithms are about as fast, a wrong answer costs little.
  TrainOptions options;
  options.allowed_worst_loss = 10;
  const TrainedTree tree = train_tree(read_heuristic_log(file.path()), options);
  const LearnedChoice learned(heuristic, tree, "our tree");

  Rng rng(12);
  const Numbers long_table = random_numbers(rng, 15000);
  const Numbers one = random_numbers(rng, 1), many = random_numbers(rng, 3000);
  std::printf("\nOne number in a table of 15000:\n%s",
              learned.explain(features_of(long_table, one)).c_str());
  HEDDLE_EXPECT(choose(learned, features_of(long_table, one)) == kScan,
                "a long table was sorted for one number");
  HEDDLE_EXPECT(choose(learned, features_of(long_table, many)) == kSort,
                "a long table was scanned three thousand times");

  // A table a thousand times as long as any that was measured: the tree says that it is unsure.
  const NamedFeatures unheard_of = {{"table", 2e7}, {"wanted", 1}};
  std::printf("\nA table of twenty million: %s\n", learned.answer(unheard_of).why.c_str());
  HEDDLE_EXPECT(learned.answer(unheard_of).unsure, "the tree answered far outside of its data");
  return 0;
}
